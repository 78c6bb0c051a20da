"""Trains a grid of configs, learning rates and seeds: python scripts/sweep.py CONFIG.gin ... --run-dir DIR"""

import argparse
import sys
from pathlib import Path

# From a checkout the package need not be installed.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from seqmodels import config
from seqmodels.command_line import Parser
from seqmodels.errors import exit_status
from seqmodels.sweep.grid import labels, numbers
from seqmodels.sweep.processes import stoppable, warm_up


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options; `--gin.` flags are taken out before."""
    parser = Parser(
        prog="sweep.py",
        description="Train every config at every learning rate with every seed, and tabulate the results.",
        takes_settings=True,
        epilog="--gin.NAME=VALUE sets the same in every config. The same command goes on after a stop.",
    )
    parser.add_argument("configs", nargs="+", metavar="CONFIG.gin", help="config files, each one by itself")
    parser.add_argument("--run-dir", type=Path, required=True, metavar="DIR", help="where the sweep is kept")
    parser.add_argument("--learning-rates", metavar="X,...", help="by default each config's own")
    parser.add_argument("--seeds", metavar="N,...", help="by default each config's own")
    parser.add_argument("--workers", type=int, metavar="N", help="processes; by default one a core")
    parser.add_argument(
        "--vectorize",
        action="store_true",
        help="train the members of a config as one program; on accelerators that is the default",
    )
    options = parser.parse_intermixed_args(arguments)
    if options.workers is not None and options.workers < 1:
        parser.error(f"--workers is {options.workers}, expected at least 1")
    return options


def main() -> None:
    with exit_status(), stoppable():
        bindings, rest = config.split_arguments(sys.argv[1:])
        options = parse(rest)
        files = labels(options.configs)
        rates = numbers("--learning-rates", options.learning_rates, float)
        seeds = numbers("--seeds", options.seeds, int)
        warm_up()
        from seqmodels import registry  # noqa: F401  (JAX and all that a config can name: seconds)
        from seqmodels.sweep.sweep import sweep

        sweep(
            files,
            options.run_dir,
            bindings,
            learning_rates=rates,
            seeds=seeds,
            workers=options.workers,
            vectorize=options.vectorize,
        )


if __name__ == "__main__":
    main()
