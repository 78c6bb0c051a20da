"""Tasks in one vocabulary: each on ids of its own, and batches of all of them in one shape."""

from collections.abc import Sequence

import numpy as np

from seqmodels.data.packing import Batch
from seqmodels.data.tasks.task import Task, TaskRows

_NONE = {"query_index": -1, "stale_answer": -1, "values_in_row": -1}  # what stands for none; else 0


def side_by_side(tasks: Sequence[Task], first_id: int = 0) -> tuple[Task, ...]:
    """The tasks on ids from `first_id` on, one behind another; those whose ids mean the same share them."""
    begins: dict[tuple, int] = {}
    for task in tasks:
        if task.ids not in begins:
            begins[task.ids] = first_id
            first_id += task.vocab_size
    return tuple(task.moved(begins[task.ids]) for task in tasks)


def most_queries(tasks: Sequence[Task]) -> int:
    """The queries n that the rows of every task can be filled up to."""
    return max(task.rows("train", 0, 1).batch["scored"].shape[1] for task in tasks)


def fill_up(batch: Batch, queries: int) -> Batch:
    """The batch with `queries` scored positions a row: those that are added have weight 0."""
    scored = batch["scored"]
    if scored.shape[1] == queries:
        return batch
    without = batch["loss_weights"].argmin(axis=1, keepdims=True).astype(np.int32)
    added = np.repeat(without, queries - scored.shape[1], axis=1)
    return {**batch, "scored": np.concatenate([scored, added], axis=1)}


def join(parts: Sequence[TaskRows], queries: int) -> TaskRows:
    """Rows of several tasks, all of one row length, one after the other; of the metadata, what all have."""
    batches = [fill_up(part.batch, queries) for part in parts]
    batch = {name: np.concatenate([each[name] for each in batches]) for name in batches[0]}
    shared = set.intersection(*(set(part.metadata) for part in parts))
    widths = dict.fromkeys(shared, queries)
    widths["values_in_row"] = max(part.metadata["values_in_row"].shape[1] for part in parts)
    metadata = {}
    for name in (name for name in parts[0].metadata if name in shared):
        arrays = [part.metadata[name] for part in parts]
        metadata[name] = np.concatenate(
            [
                np.pad(
                    array, ((0, 0), (0, widths[name] - array.shape[1])), constant_values=_NONE.get(name, 0)
                )
                for array in arrays
            ]
        )
    return TaskRows(batch, metadata)
