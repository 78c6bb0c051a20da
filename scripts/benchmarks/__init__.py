"""The parts of scripts/benchmark.py: what each compares, and how comparisons are run and printed."""
