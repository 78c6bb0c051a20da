"""How a run starts: in a new directory, or where an earlier process stopped.

1. A directory without a run must be new or empty.
2. A directory with a run goes on from its newest whole checkpoint, or from step 0 where it has none.
3. It goes on only with the config and the data it was begun with, save for what does not change the updates
   made.
4. `--resume never` refuses rule 2, `--resume must` refuses rule 1 and step 0.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from seqmodels.config import Config
from seqmodels.errors import InputError
from seqmodels.training import checkpoints
from seqmodels.training.run_directory import RunDirectory, check_free, is_run

Resume = Literal["auto", "never", "must"]

CHANGEABLE = {
    "train.steps",
    "train.log_every",
    "train.evaluate_every",
    "train.checkpoint_every",
    "train.profile_steps",
    "train.skip_nonfinite",
}


def check_start(path: Path, config: Config, resume: Resume, steps: int, say: Callable[[str], None]) -> None:
    """Applies the rules above as far as the directory and the config go; changes nothing.

    steps: at which the run is to end.

    Raises:
        InputError: the directory cannot take this run.
    """
    if not is_run(path):
        check_free(path)
        if resume == "must":
            raise InputError(f"--resume must: {path} holds no run to go on with.")
        return
    run = RunDirectory(path)
    present = checkpoints.steps(run.checkpoints)
    if resume == "never":
        at = f"at step {present[-1]}" if present else "without a checkpoint"
        raise InputError(f"--resume never: {path} already holds a run, {at}; name another --run-dir.")
    if resume == "must" and not present:
        raise InputError(f"--resume must: {path} has no checkpoint to go on from.")
    if not present:
        return
    differences = config.differences(run.config_file)
    refused = [str(each) for each in differences if each.name not in CHANGEABLE]
    if refused:
        listed = "".join(f"\n  {line}" for line in refused)
        raise InputError(
            f"{path} holds a run of another config; name another --run-dir, or set back (old -> new):{listed}"
        )
    if steps < present[-1]:
        raise InputError(f"train.steps = {steps}, and {path} is already at step {present[-1]}.")
    for each in differences:
        say(f"changed since the run began (old -> new): {each}; the new value holds from here on")


def check_data(path: Path, data: Any) -> None:
    """Raises InputError if the run was begun on other data."""
    if not checkpoints.steps(path / "checkpoints"):
        return
    begun = RunDirectory(path).information()["data"]["fingerprint"]
    if begun != data.fingerprint:
        raise InputError(
            f"{path} was begun on other data: their fingerprint was {begun} and is now {data.fingerprint}. "
            "Restore the data, or name another --run-dir."
        )
