"""Trains a model: python train.py CONFIG.gin [MORE.gin ...] --run-dir DIR [--gin.NAME=VALUE ...]"""

import argparse
import sys
from pathlib import Path

from seqmodels import config
from seqmodels.errors import InputError, exit_status
from seqmodels.training.interruption import Interruption


class Once(argparse.Action):
    """An option that may be given once: the second of two would silently win."""

    def __call__(self, parser, namespace, values, option_string=None):
        if option_string in (given := getattr(namespace, "given", [])):
            parser.error(f"{option_string} is given twice.")
        namespace.given = [*given, option_string]
        setattr(namespace, self.dest, values)


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options and config files; `--gin.` flags are taken out before."""
    parser = argparse.ArgumentParser(
        prog="train.py",
        description="Train a model, or go on where an earlier process stopped.",
        epilog="--gin.NAME=VALUE overrides a setting of the config files, for example --gin.train.steps=100.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "configs", nargs="+", metavar="CONFIG.gin", help="config files; later ones override earlier ones"
    )
    parser.add_argument("--run-dir", type=Path, action=Once, metavar="DIR", help="where the run is kept")
    parser.add_argument(
        "--resume",
        choices=("auto", "never", "must"),
        default="auto",
        action=Once,
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
            if not Path(file).is_file():
                hint = " A setting is written --gin.NAME=VALUE." if "=" in file else ""
                raise InputError(f"{file}: there is no such config file.{hint}")
        from seqmodels import registry  # noqa: F401  (JAX and all that a config can name: seconds)
        from seqmodels.training.processes import joined
        from seqmodels.training.train import train

        loaded = config.load(options.configs, bindings)
        with joined():
            train(options.run_dir, loaded, options.resume, options.check, interruption)


if __name__ == "__main__":
    main()
