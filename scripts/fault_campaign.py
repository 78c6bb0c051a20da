"""Kills runs and damages checkpoints at random: python scripts/fault_campaign.py --kills 200 --damages 200"""

import argparse
import multiprocessing
import os
import shutil
import sys
import tempfile
from pathlib import Path

# From a checkout the package need not be installed.
sys.path.insert(1, str(Path(__file__).resolve().parent.parent))

from seqmodels.command_line import Parser
from seqmodels.errors import InputError, exit_status


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options of the command line."""
    parser = Parser(
        prog="fault_campaign.py",
        description="Strikes runs of train.py at random instants and compares their bits with those of runs "
        "left alone; damages checkpoints at random places. Exit status 1 if anything is lost or differs.",
    )
    parser.add_argument("--kills", type=int, default=0, metavar="N", help="processes to kill or to stop")
    parser.add_argument("--damages", type=int, default=0, metavar="N", help="checkpoints to damage")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of all that is drawn (default: 0)")
    parser.add_argument(
        "--run-dir", type=Path, metavar="DIR", help="keeps what the runs wrote, in a new or empty directory"
    )
    options = parser.parse_args(arguments)
    if min(options.kills, options.damages) < 0 or not options.kills + options.damages:
        parser.error("--kills N or --damages N is to be given, at least 1.")
    return options


def strike(options: argparse.Namespace, folder: Path) -> bool:
    """Does what the options ask for; returns whether nothing was lost and nothing differs."""
    from scripts.faults import damages
    from scripts.faults.campaign import Campaign
    from scripts.faults.configurations import NAMES
    from scripts.faults.tally import Tally
    from seqmodels.data.cache import cache_folder

    whole = True
    if options.kills:
        tally = Tally()
        # What a killed process held is counted and freed at the end; that it was left is no news here.
        os.environ.setdefault("PYTHONWARNINGS", "ignore:resource_tracker:UserWarning")
        # Each process is an interpreter of its own: nothing is left of the one before but its files.
        processes = multiprocessing.get_context("spawn")
        programs = cache_folder(None) / "xla"
        Campaign(NAMES, folder, programs, processes, tally, options.seed).strike(options.kills)
        print(tally.total())
        whole = not tally.lost + tally.differing
    if options.damages:
        outcomes = damages.strike(options.damages, folder / "damages", options.seed)
        print(f"{options.damages} damages: " + ", ".join(f"{n} {name}" for name, n in outcomes.most_common()))
        whole = whole and not outcomes[damages.SILENT] + outcomes[damages.LOST]
    return whole


def main() -> None:
    with exit_status():
        options = parse(sys.argv[1:])
        if options.run_dir is not None:
            options.run_dir.mkdir(parents=True, exist_ok=True)
            if any(options.run_dir.iterdir()):
                raise InputError(f"--run-dir {options.run_dir} is not empty; name a new directory.")
        folder = (options.run_dir or Path(tempfile.mkdtemp(prefix="faults-"))).absolute()
        whole = strike(options, folder)
        if whole and options.run_dir is None:
            shutil.rmtree(folder)
        sys.exit(0 if whole else 1)


if __name__ == "__main__":
    main()
