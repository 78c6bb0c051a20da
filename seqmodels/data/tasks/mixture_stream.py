"""Training batches of a mixture: which part a row comes from is a function of (seed, row index).

The k-th row that falls to a part is its row k. Every process follows the choices of the whole batch, and
makes its own rows alone; a position is the next row's index and where each part stands, for any number of
processes.
"""

import hashlib
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from seqmodels.data.packing import Batch, PackedRows, process_share
from seqmodels.data.random_bits import check_seed, row_words
from seqmodels.data.tasks.side_by_side import fill_up, most_queries
from seqmodels.data.tasks.task import Task
from seqmodels.data.text import Text

_CHOICE = 1 << 63  # a key that no epoch of text has


class _Part(Protocol):
    """A part's rows in order. `take` goes on by `total` rows, and makes `count` of them from `skip` on."""

    def take(self, skip: int, count: int, total: int) -> Batch: ...
    def state(self) -> Any: ...
    def restore(self, state: Any) -> None: ...


class _Numbered:
    """A part whose rows are made from their indices."""

    def __init__(self) -> None:
        self._next = 0

    def take(self, skip: int, count: int, total: int) -> Batch:
        first = self._next + skip
        self._next += total
        return self._rows(first, count) if count else {}

    def state(self) -> int:
        return self._next

    def restore(self, state: int) -> None:
        self._next = state

    def _rows(self, first: int, count: int) -> Batch:
        raise NotImplementedError


class _TaskPart(_Numbered):
    def __init__(self, task: Task, row_length: int, seed: int):
        super().__init__()
        self._task, self._row_length, self._seed = task, row_length, seed

    def _rows(self, first: int, count: int) -> Batch:
        made = self._task.rows("train", first, count, seed=self._seed, row_length=self._row_length)
        return made.batch


class _StoredPart(_Numbered):
    def __init__(self, text: Text, row_length: int, seed: int):
        super().__init__()
        self._packed = PackedRows(text.train, row_length, text.tokenizer.end_id, seed)

    def _rows(self, first: int, count: int) -> Batch:
        return self._packed.batch(np.arange(first, first + count))


class _StreamedPart:
    """Text that streams: rows come one after the other, those of other processes too."""

    def __init__(self, text: Text, row_length: int, seed: int):
        self._rows = text.stream(1, row_length, seed)

    def take(self, skip: int, count: int, total: int) -> Batch:
        rows = [next(self._rows) for _ in range(total)][skip : skip + count]
        return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]} if rows else {}

    def state(self) -> Any:
        return self._rows.state()

    def restore(self, state: Any) -> None:
        self._rows.restore(state)


class MixtureStream:
    """This process's share of each global batch, without end.

    Batches of tasks alone have `scored`, of as many positions a row as the task with the most queries has;
    with text among them every position may have weight, and there is none.
    """

    def __init__(
        self,
        text: Text | None,
        tasks: Sequence[Task],
        weights: Sequence[float],
        batch_size: int,
        row_length: int,
        seed: int,
        process_index: int = 0,
        process_count: int = 1,
    ):
        """weights: of the text, where there is one, then of the tasks. batch_size: rows of all processes."""
        check_seed(seed)
        self._share = process_share(batch_size, process_index, process_count)
        self._batch_size, self._row_length, self._seed, self._next_row = batch_size, row_length, seed, 0
        ends = np.cumsum(np.array(weights, np.float64))
        self._ends = np.floor(ends[:-1] / ends[-1] * 2.0**32)
        self._queries = None if text is not None else most_queries(tasks)
        # A seed for each: otherwise two tasks of one kind would draw the same keys in the same row.
        self._parts: list[_Part] = [
            _TaskPart(task, row_length, _seed_of(seed, number)) for number, task in enumerate(tasks)
        ]
        for task in tasks:
            task.stream(batch_size, row_length, seed)  # refuses a row length that its rows exceed
        if text is not None:
            stored = _StreamedPart if text.train is None else _StoredPart
            self._parts.insert(0, stored(text, row_length, seed))

    def __iter__(self) -> "MixtureStream":
        return self

    def __next__(self) -> Batch:
        words = row_words((self._seed, _CHOICE), self._next_row, self._batch_size, 1)[:, 0]
        chosen = np.searchsorted(self._ends, words.astype(np.float64), side="right")
        mine = chosen[self._share]
        batch: Batch = {}
        for number, part in enumerate(self._parts):
            skip = int((chosen[: self._share[0]] == number).sum())
            count, total = int((mine == number).sum()), int((chosen == number).sum())
            made = part.take(skip, count, total)
            if not count:
                continue
            if self._queries is None:
                made.pop("scored", None)
            else:
                made = fill_up(made, self._queries)
            for name, rows in made.items():
                batch.setdefault(name, np.empty((len(mine), *rows.shape[1:]), rows.dtype))[mine == number] = (
                    rows
                )
        self._next_row += self._batch_size
        return batch

    def state(self) -> dict[str, Any]:
        """The position after the last batch handed out."""
        return {"row": self._next_row, "parts": [part.state() for part in self._parts]}

    def restore(self, state: dict[str, Any]) -> None:
        self._next_row = state["row"]
        for part, position in zip(self._parts, state["parts"], strict=True):
            part.restore(position)


def _seed_of(seed: int, number: int) -> int:
    """A seed for the task with this number in a mixture."""
    digest = hashlib.blake2b(f"{seed} {number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
