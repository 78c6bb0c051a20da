"""Trains a model: python train.py CONFIG.gin [MORE.gin ...] --run-dir DIR [--gin.NAME=VALUE ...]"""

import argparse
import sys
from pathlib import Path

from seqmodels import config
from seqmodels.command_line import Parser
from seqmodels.config_reader import check_there
from seqmodels.errors import exit_status
from seqmodels.training.interruption import Interruption


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options and config files; `--gin.` flags are taken out before."""
    parser = Parser(
        prog="train.py",
        description="Train a model, or go on where an earlier process stopped.",
        takes_settings=True,
        epilog="--gin.NAME=VALUE overrides a setting of the config files, for example --gin.train.steps=100.",
    )
    parser.add_argument(
        "configs", nargs="+", metavar="CONFIG.gin", help="config files; later ones override earlier ones"
    )
    parser.add_argument("--run-dir", type=Path, metavar="DIR", help="where the run is kept")
    parser.add_argument(
        "--resume",
        choices=("auto", "never", "must"),
        default="auto",
        help="go on with the run in DIR if there is one (auto), never do, or fail where there is none (must)",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="resolve config, data, shapes, FLOPs and memory, and stop before step 1",
    )
    options = parser.parse_intermixed_args(arguments)
    if options.run_dir is None and not options.check:
        parser.error("--run-dir DIR is needed: where is the run to be kept?")
    return options


def main() -> None:
    with exit_status(), Interruption() as interruption:
        bindings, rest = config.split_arguments(sys.argv[1:])
        options = parse(rest)
        for file in options.configs:
            check_there(Path(file))
        from seqmodels import registry  # noqa: F401  (JAX and all that a config can name: seconds)
        from seqmodels.training.processes import joined
        from seqmodels.training.train import train

        loaded = config.load(options.configs, bindings)
        with joined():
            train(options.run_dir, loaded, options.resume, options.check, interruption)


if __name__ == "__main__":
    main()
