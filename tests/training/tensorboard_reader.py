"""What TensorBoard sees in a directory of event files."""

import warnings
from pathlib import Path

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the reader's own
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def curves(directory: Path) -> tuple[dict[str, list[tuple[int, float]]], EventAccumulator]:
    """The points (step, value) of every curve by tag, and the reader with all the rest."""
    reader = EventAccumulator(str(directory), size_guidance={"scalars": 0, "tensors": 0})
    reader.Reload()
    tags = reader.Tags()["scalars"]
    return {tag: [(event.step, event.value) for event in reader.Scalars(tag)] for tag in tags}, reader
