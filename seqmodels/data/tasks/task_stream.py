"""Training batches of a task whose rows are made as they are asked for."""

from typing import Any

import numpy as np

from seqmodels.data.packing import Batch, process_share
from seqmodels.data.random_bits import check_seed


class TaskStream:
    """This process's share of each global batch, without end and without a row twice."""

    def __init__(
        self,
        task: Any,
        batch_size: int,
        row_length: int,
        seed: int,
        process_index: int = 0,
        process_count: int = 1,
    ):
        """task: has `rows`. batch_size: rows of all processes, a multiple of process_count."""
        check_seed(seed)
        self._share: np.ndarray = process_share(batch_size, process_index, process_count)
        self._task, self._batch_size, self._row_length, self._seed = task, batch_size, row_length, seed
        self._next_row = 0

    def __iter__(self) -> "TaskStream":
        return self

    def __next__(self) -> Batch:
        first = self._next_row + int(self._share[0])
        rows = self._task.rows("train", first, len(self._share), seed=self._seed, row_length=self._row_length)
        self._next_row += self._batch_size
        return rows.batch

    def state(self) -> dict[str, int]:
        """The position after the last batch handed out, in rows of all processes."""
        return {"row": self._next_row}

    def restore(self, state: dict[str, int]) -> None:
        self._next_row = state["row"]
