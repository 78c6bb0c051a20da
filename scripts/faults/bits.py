"""Whether two runs are the same to the bit."""

import json
from pathlib import Path
from typing import Any

import jax
import numpy as np
from orbax.checkpoint import v1 as ocp

from scripts.faults.process import events
from seqmodels.training.best import best_step
from seqmodels.training.checkpoints import steps
from seqmodels.training.run_directory import RunDirectory

# What depends on the machine's mood.
TIMES = {"time", "train/tokens_per_second", "train/step_time", "train/data_wait", "train/mfu"}


def differences(reference: Path, other: Path) -> list[str]:
    """What of a run differs from its reference: figures, batches, the last and the best checkpoint.

    Args:
        reference: the folder of a run that was left alone: its run directory and its trace.
        other: the folder of another run of the same config.
    """
    runs = [RunDirectory(folder / "run") for folder in (reference, other)]
    logged = [{line["step"]: json.dumps(line, sort_keys=True) for line in figures(run)} for run in runs]
    found = [f"the figures of step {step}" for step in _unequal(*logged)]
    trained_on = batches(reference)
    for step, batch in {(event.step, event.batch) for event in _updates(other)}:
        if trained_on.get(step) != batch:
            found.append(f"the batch of update {step}")
    if missing := trained_on.keys() - batches(other).keys():
        found.append(f"no update {sorted(missing)}")
    kept = [steps(run.checkpoints) for run in runs]
    best = [best_step(run.metrics(), present) for run, present in zip(runs, kept, strict=True)]
    if kept[0][-1:] != kept[1][-1:] or best[0] != best[1]:
        return [*found, f"the last and the best checkpoint are {kept[1][-1:]} and {best[1]}"]
    for step in sorted({kept[0][-1], best[0]}):
        contents = [content(run.checkpoints / str(step)) for run in runs]
        found += [f"{name} of checkpoint {step}" for name in _unequal(*contents)]
    return found


def figures(run: RunDirectory) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl, without the figures that are times."""
    return [{tag: value for tag, value in line.items() if tag not in TIMES} for line in run.metrics()]


def batches(folder: Path) -> dict[int, str]:
    """The hash of the batch that each update was trained on."""
    return {event.step: event.batch for event in _updates(folder)}


def content(checkpoint: Path) -> dict[str, Any]:
    """What a checkpoint holds: the position in the data, and type, shape and bytes of each array.

    Of a stream the position is the window and the targets used of it.
    """
    about = ocp.checkpointables_metadata(checkpoint)
    here = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    abstract = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=here), about.metadata
    )
    position = dict(about.custom_metadata["data"])
    position.pop("source", None)  # a stream's own words for its place depend on where reading began
    found: dict[str, Any] = {"position": position}
    for path, leaf in jax.tree.leaves_with_path(ocp.load_checkpointables(checkpoint, abstract)):
        array = np.asarray(leaf)
        found[jax.tree_util.keystr(path)] = (array.dtype, array.shape, array.tobytes())
    return found


def _updates(folder: Path) -> list:
    return [event for event in events(folder / "trace.txt") if event.name == "update"]


def _unequal(first: dict, second: dict) -> list:
    """The keys whose values differ, or that one of the two lacks."""
    return sorted(key for key in first.keys() | second.keys() if first.get(key) != second.get(key))
