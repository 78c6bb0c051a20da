"""What a recall task is: rows as a pure function of (settings, seed, split, index), and how to measure them.

A task trains a model (`train.data`), and is what a trained model is measured on. It subclasses `Task`, checks
its settings in `row_tokens`, makes rows in `_make` and says in `sweeps` along which of its settings accuracy
is worth a curve.
"""

import copy
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from seqmodels.data.packing import Batch
from seqmodels.data.random_bits import check_seed, row_words
from seqmodels.data.tasks.task_stream import TaskStream
from seqmodels.errors import InputError

TaskSplit = Literal["train", "validation", "test"]
_SPLITS = {"train": 0, "validation": 2, "test": 4}


class TaskRows(NamedTuple):
    """Rows of a task, and what is known of each query.

    batch: a batch, with `scored` int32 `[B, n]`, the positions of the queries: all that has weight. A row of
        fewer than n queries repeats a position of weight 0.
    metadata: int64 arrays. Of each query `[B, n]`: distance, query_index (from 0; -1 where the row has no
        more), row, answer, pairs, and what else the task knows. Of each row: values_in_row `[B, K]`, the
        values that it holds, in order, -1 where there are fewer than K.
    """

    batch: Batch
    metadata: dict[str, np.ndarray]


class Point(NamedTuple):
    """One point of a sweep.

    at: where it stands on the axis. settings: what `rows` makes its rows with. pairs: values in the row that
    a guess could choose from. familiar: whether training has such settings, the length of its rows apart.
    """

    at: float
    settings: dict[str, Any]
    pairs: int
    familiar: bool


class Sweep(NamedTuple):
    """Points in order along one axis, everything else held.

    name: as in "recall by NAME". axis: what `at` counts, with its unit. first_query: whether the first query
    of each row alone is counted, which makes the trials of a point independent; otherwise all are.
    """

    name: str
    axis: str
    points: list[Point]
    first_query: bool = True


class Draw(NamedTuple):
    """Where the random numbers of some rows come from: rows `first` to `first + count - 1` of a split."""

    seed: int
    split: TaskSplit
    first: int
    count: int

    def words(self, needed: int, stream: int = 0) -> np.ndarray:
        """uint32 words `[count, needed]`; a row's depend on its index alone. Streams are independent."""
        pair, second = divmod(stream, 2)  # two streams a split, then two more of each behind those
        key = (self.seed, _SPLITS[self.split] + 2 * len(_SPLITS) * pair + second)
        return row_words(key, self.first, self.count, needed)


class Task:
    """A task with its settings.

    Attributes:
        kind: tells evaluation what this is.
        settings: what rows depend on, by name.
        vocab_size: token ids lie below it.
        value_ids: what an answer can be.
        key_ids: what a question is made of, where that is an alphabet of its own.
        filler_ids: tokens that are never part of a question or an answer.
        first_id: no token id lies below it; 0, unless the task stands behind other ids.
    """

    kind = "recall"
    format: ClassVar[int] = 1
    """To be raised when the bytes of rows change."""

    settings: dict[str, Any]
    vocab_size: int
    value_ids: range
    key_ids: range = range(0)
    filler_ids: range = range(0)
    first_id: int = 0

    @property
    def ids(self) -> tuple:
        """What token ids stand for: tasks that agree in it can share them."""
        return (type(self).__name__, self.vocab_size, self.key_ids, self.value_ids, self.filler_ids)

    def moved(self, by: int) -> "Task":
        """The same task with each token id raised by `by`."""
        other = copy.copy(self)
        other.first_id, other.vocab_size = self.first_id + by, self.vocab_size + by
        for name in ("key_ids", "value_ids", "filler_ids"):
            ids = getattr(self, name)
            setattr(other, name, range(ids.start + by, ids.stop + by))
        return other

    def row_tokens(self, **changes: Any) -> int:
        """Tokens of the longest row, with `changes` in place of the task's own settings.

        Raises InputError for settings that make no row.
        """
        raise NotImplementedError

    def sweeps(self, longest: int) -> list[Sweep]:
        """The curves of this task in rows of up to `longest` tokens, the principal one first.

        Raises InputError where not even the shortest row fits.
        """
        raise NotImplementedError

    def _make(self, draw: Draw, row_length: int, settings: dict[str, Any]) -> TaskRows:
        """The rows of a draw, padded to row_length on the right; it holds the longest row of the settings."""
        raise NotImplementedError

    def rows(
        self,
        split: TaskSplit,
        first: int,
        count: int,
        *,
        seed: int = 0,
        row_length: int | None = None,
        **changes: Any,
    ) -> TaskRows:
        """Rows `first` to `first + count - 1` of a split.

        Args:
            row_length: rows are padded to it on the right; by default the longest row of these settings.
            changes: settings in place of the task's own.

        Raises:
            InputError: the settings make no row, or one longer than row_length.
        """
        check_seed(seed)
        longest = self.row_tokens(**changes)
        row_length = longest if row_length is None else row_length
        self._check_room(longest, row_length)
        return self._make(Draw(seed, split, first, count), row_length, self.settings | changes)

    def rows_hash(self, split: TaskSplit, first: int, count: int, **settings: Any) -> str:
        """A hash of rows, to be stored beside what was measured on them; arguments as for `rows`."""
        batch = self.rows(split, first, count, **settings).batch
        whole = hashlib.blake2b(digest_size=16)
        for name in ("tokens", "targets", "segment_ids", "scored"):
            whole.update(np.ascontiguousarray(batch[name], "<i4").tobytes())
        return whole.hexdigest()

    def stream(
        self, batch_size: int, row_length: int, seed: int, process_index: int = 0, process_count: int = 1
    ) -> TaskStream:
        """Training batches without end; batch_size counts the rows of all processes."""
        self._check_room(self.row_tokens(), row_length)
        return TaskStream(self, batch_size, row_length, seed, process_index, process_count)

    def prepare(self, cache_dir: Path | None = None, say: Callable[[str], None] = print) -> None:
        """Nothing to prepare: rows are made as they are asked for."""

    def describe(self) -> dict[str, object]:
        """The settings."""
        behind = {"first_id": self.first_id} if self.first_id else {}
        return {"task": type(self).__name__, **self.settings, **behind, "vocab_size": self.vocab_size}

    @property
    def fingerprint(self) -> str:
        """A hash of what rows depend on."""
        return hashlib.blake2b(f"{self.format} {self.describe()}".encode(), digest_size=16).hexdigest()

    def _fitting(self, points: list[Point], longest: int) -> list[Point]:
        """The points whose rows have up to `longest` tokens; InputError where not even the shortest fits."""
        tokens = [self.row_tokens(**point.settings) for point in points]
        if min(tokens) > longest:
            raise InputError(
                f"the shortest row of the task takes {min(tokens)} tokens, and rows of up to {longest} are "
                "evaluated: raise evaluate.row_length"
            )
        return [point for point, needed in zip(points, tokens, strict=True) if needed <= longest]

    def _check_room(self, longest: int, row_length: int) -> None:
        if longest > row_length:
            raise InputError(
                f"rows of {type(self).__name__} take up to {longest} tokens with these settings, and "
                f"row_length is {row_length}."
            )


def numbers(setting: int | tuple[int, ...]) -> tuple[int, ...]:
    """A setting of one or several numbers as several."""
    return (setting,) if isinstance(setting, int) else tuple(setting)


def check_least(task: str, least: int = 1, **settings: int | tuple[int, ...]) -> None:
    """Raises InputError for the first setting of `task` below `least`, beyond 31 bits or without number."""
    for name, value in settings.items():
        if value == ():
            raise InputError(f"{task}.{name} = () holds no number.")
        if min(numbers(value)) < least:
            raise InputError(f"{task}.{name} = {value} should be at least {least}.")
        if max(numbers(value)) >= 2**31:
            raise InputError(f"{task}.{name} = {value} is too large: tokens are counted in 31 bits.")


def doubling(first: int, last: int) -> list[int]:
    """first, twice that, and so on up to `last`; never empty."""
    found = [first]
    while 2 * found[-1] <= last:
        found.append(2 * found[-1])
    return found
