"""Times computations against each other, and against targets: python scripts/benchmark.py [PART ...]"""

import argparse
import sys
from importlib import import_module
from pathlib import Path

# From a checkout the package need not be installed.
sys.path.insert(1, str(Path(__file__).resolve().parent.parent))

from seqmodels.command_line import Parser
from seqmodels.errors import exit_status

# A part is a module of `benchmarks` whose `comparisons()` yields what it compares, one after the other.
PARTS = {
    "ops": "the forms of every op against each other, forward and backward",
    "configs": "the steps of all configs under configs/mixers",
    "data": "perplexity against the bare forward pass, and rows of a task against the steps that take them",
    "decode": "one token at a time from the state, behind short and long contexts",
    "sweep": "a sweep of tiny members, its members in turn, and as many runs of their own",
    "record": "a line of metrics every update and a checkpoint every 50, against neither",
    "step": "the step of training against the machine's products, and the loop around it against the step",
}


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options of the command line."""
    parser = Parser(
        prog="benchmark.py",
        description="Medians of rounds in which every contender runs once, in one process, once compiled.",
        epilog="; ".join(f"{name}: {what}" for name, what in PARTS.items()),
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; default: all")
    parser.add_argument("--rounds", type=int, default=10, help="timed rounds a comparison (default: 10)")
    options = parser.parse_args(arguments)
    for part in options.parts:
        if part not in PARTS:
            parser.error(f"there is no part {part!r}; the parts are {', '.join(PARTS)}")
    if options.rounds < 1:
        parser.error(f"--rounds is {options.rounds}, expected at least 1")
    return options


def main() -> None:
    with exit_status():
        options = parse(sys.argv[1:])
    from benchmarks.comparison import machine, report

    print(machine())
    reached = []
    for part in options.parts or PARTS:
        for comparison in import_module(f"benchmarks.{part}").comparisons():
            lines, verdicts = report(comparison, options.rounds)
            print("", *lines, sep="\n", flush=True)
            reached += verdicts
    print(f"\n{sum(reached)} of {len(reached)} targets reached")


if __name__ == "__main__":
    main()
