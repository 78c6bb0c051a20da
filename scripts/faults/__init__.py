"""Runs that are killed and checkpoints that are damaged, at random, and whether anything is lost by it."""
