"""How a run starts: in a new directory, or where an earlier process stopped.

1. A directory without a run must be new or empty.
2. A directory with a run goes on from its newest whole checkpoint, or from step 0 where it has none.
3. It goes on only with the data it was begun with. Each setting that differs from the run's config is
   printed. Those in FREE may differ; those that every optimizer has (learning rate and schedule, weight
   decay, clipping) may with `train.allow_changes`; others may not. A new value holds from the next update on.
4. `--resume never` refuses rule 2, `--resume must` refuses rule 1 and step 0.
"""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

from seqmodels.config import Config, Difference
from seqmodels.errors import InputError
from seqmodels.training import checkpoints
from seqmodels.training.optimizers import Optimizer
from seqmodels.training.run_directory import RunDirectory, check_free, is_run
from seqmodels.training.settings import Settings

Resume = Literal["auto", "never", "must"]

FREE = {
    "train.steps",
    "train.log_every",
    "train.evaluate_every",
    "train.checkpoint_every",
    "train.keep_every",
    "train.profile_steps",
    "train.skip_nonfinite",
}


def check_start(
    path: Path, config: Config, resume: Resume, settings: Settings, say: Callable[[str], None]
) -> None:
    """Applies the rules above as far as the directory and the config go; changes nothing.

    Args:
        path: the run directory.
        config: the config asked for, and `settings` what it says of training.
        resume: as on the command line.
        say: takes a sentence for each setting that has changed.

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
    _check_differences(path, differences, settings.allow_changes)
    if settings.steps < present[-1]:
        raise InputError(f"train.steps = {settings.steps}, and {path} is already at step {present[-1]}.")
    for each in differences:
        schedule = ", for the schedule too" if each.name == "train.steps" else ""
        say(f"changed since the run began (old -> new): {each}; the new value holds from here on{schedule}")


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


def _check_differences(path: Path, differences: Sequence[Difference], allowed: bool) -> None:
    """Raises InputError where a setting differs that must not, or must not without consent."""
    open_to_consent = [each for each in differences if _needs_consent(each.name)]
    refused = [each for each in differences if each.name not in FREE and each not in open_to_consent]
    parts = []
    if refused:
        parts.append(f"name another --run-dir, or set back (old -> new):{_listed(refused)}")
    if open_to_consent and not allowed:
        listed = _listed(open_to_consent)
        parts.append(f"set back, or allow with --gin.train.allow_changes=True (old -> new):{listed}")
    if parts:
        raise InputError(f"{path} holds a run of another config: " + "\nand ".join(parts))


def _needs_consent(name: str) -> bool:
    """Whether a setting is one that every optimizer has."""
    owner, _, parameter = name.rpartition("/")[2].partition(".")
    optimizers = {each.__name__ for each in Optimizer.__subclasses__()}
    return owner in optimizers and parameter in {field.name for field in dataclasses.fields(Optimizer)}


def _listed(differences: Sequence[Difference]) -> str:
    return "".join(f"\n  {each}" for each in differences)
