"""Puts trained runs side by side: python scripts/compare.py RUN_DIR RUN_DIR ... --out DIR"""

import argparse
import os
import sys
from pathlib import Path

# From a checkout the package need not be installed.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from seqmodels.command_line import Parser
from seqmodels.errors import InputError, exit_status


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options of the command line."""
    parser = Parser(
        prog="compare.py",
        description="Compare trained runs: figures, whether the comparison is fair, and curves.",
    )
    parser.add_argument(
        "run_dirs",
        nargs="+",
        type=Path,
        metavar="RUN_DIR",
        help="what train.py wrote, or sweep.py: each config's run at its best learning rate, first seed",
    )
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="where the page goes")
    return parser.parse_args(arguments)


def main() -> None:
    with exit_status():
        options = parse(sys.argv[1:])
        from seqmodels.evaluation.comparison_sweep import chosen
        from seqmodels.training.run_directory import RunDirectory

        runs = [RunDirectory(each) for path in options.run_dirs for each in chosen(path)]
        if len({run.path.resolve() for run in runs}) < len(runs):
            raise InputError("a run directory is given twice.")
        out = options.out.absolute()
        taken = next(path for path in (out, *out.parents) if os.path.exists(path))
        if not taken.is_dir():
            raise InputError(f"--out {options.out}: {taken} is a file; name a directory.")
        try:
            options.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"--out {options.out} cannot be written: {error.strerror}.") from None
        from seqmodels import registry  # noqa: F401  (JAX and all that a config can name: seconds)
        from seqmodels.evaluation import comparison, comparison_page, comparison_tables
        from seqmodels.evaluation.comparison_ledger import ledger
        from seqmodels.evaluation.comparison_paired import differences

        names = comparison.labels(runs)
        compared = [comparison.read(run, name) for run, name in zip(runs, names, strict=True)]
        for run in compared:
            if not run.suites:
                print(f"{run.label}: figures of the evaluation in training; eval.py has more to compare.")
        entries, paired = ledger(compared), differences(compared)
        comparison_tables.show(compared, entries, paired)
        for path in comparison_page.write(options.out, compared, entries, paired):
            print(f"written: {path}")


if __name__ == "__main__":
    main()
