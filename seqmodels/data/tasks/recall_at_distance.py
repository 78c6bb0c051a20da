"""Recall at a distance: which value was written with this key, and how long ago?

    row = [P pairs] [the target pair k*, v*] [I pairs] [F fillers] [n query keys]

Three knobs that turn apart: the load K = P + 1 + I pairs, the interference I of pairs written after the
target, and the delay F of fillers from an alphabet of their own, so that no filler is a key or a value.
Query r (from 0) of a pair with I pairs after it has the distance, position of the query less position of the
pair's value,

    d = 2 I + F + 1 + r,

and a row has 2 K + F + n tokens. Keys are distinct; values and queries are drawn uniformly, with repetition.
The answer is the target at the query's own position, and is never fed back.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

import gin
import numpy as np

from seqmodels.data.packing import Batch
from seqmodels.data.random_bits import below, check_seed, distinct, row_words
from seqmodels.data.tasks.task_stream import TaskStream
from seqmodels.errors import InputError

TaskSplit = Literal["train", "validation", "test"]

# Bump it when the bytes of rows change.
FORMAT = 1
# Second words of the random keys: pairs and queries of a split, and behind them its fillers.
_KEYS = {"train": 0, "validation": 2, "test": 4}


class RecallRows(NamedTuple):
    """Rows of the task, and what is known of each query.

    batch: a batch, with `scored` int32 `[B, n]`, the positions of the queries: all that has weight.
    metadata: int64 arrays. Of each query `[B, n]`: distance, interference, fillers, pairs, query_index, row,
        answer. Of each row: values_in_row `[B, K]`, as they were written, -1 where a row has fewer than K.
    """

    batch: Batch
    metadata: dict[str, np.ndarray]


@gin.register
class RecallAtDistance:
    """Rows of recall at a distance, as a pure function of (settings, seed, split, row index).

    Token ids: fillers first, then keys, then values.

    The defaults fill rows of at most 59 tokens, for a row length of 64: 4 pairs, 20 queries, and delays that
    put the newest pair 1, 2, 4, ... 32 tokens before the first query. Many queries a row matter: with 4,
    training stays where it answers with any value of the row.
    """

    kind = "recall"

    def __init__(
        self,
        pairs: int | tuple[int, ...] = 4,
        interference: int | tuple[int, ...] | None = None,
        fillers: int | tuple[int, ...] = (0, 1, 3, 7, 15, 31),
        queries_per_row: int = 20,
        keys: int = 112,
        values: int = 128,
        filler_tokens: int = 16,
    ):
        """
        Args:
            pairs: K. Here and in the next two, of several numbers each row draws one.
            interference: I of the pair that the first query asks for. None: any pair of the row, as it is
                for the other queries.
            fillers: F.
            queries_per_row: n.
            keys, values, filler_tokens: the sizes of the three alphabets.
        """
        self.pairs, self.fillers = _numbers(pairs), _numbers(fillers)
        self.interference = None if interference is None else _numbers(interference)
        self.queries_per_row = queries_per_row
        self.keys, self.values, self.filler_tokens = keys, values, filler_tokens
        self.filler_ids = range(filler_tokens)
        self.key_ids = range(filler_tokens, filler_tokens + keys)
        self.value_ids = range(filler_tokens + keys, filler_tokens + keys + values)
        self.vocab_size = filler_tokens + keys + values
        for name, size in (("queries_per_row", queries_per_row), ("keys", keys), ("values", values)):
            if size < 1:
                raise InputError(f"RecallAtDistance.{name} = {size} should be at least 1.")
        self._longest_row(self.pairs, self.interference, self.fillers)

    @property
    def longest_row(self) -> int:
        """Tokens of a row at the largest settings: the least row_length."""
        return self._longest_row(self.pairs, self.interference, self.fillers)

    def row_tokens(self, pairs: int, fillers: int) -> int:
        """Tokens of a row, 2 K + F + n."""
        return 2 * pairs + fillers + self.queries_per_row

    @property
    def fingerprint(self) -> str:
        return hashlib.blake2b(f"{FORMAT} {self.describe()}".encode(), digest_size=16).hexdigest()

    def describe(self) -> dict[str, object]:
        """The settings."""
        return {
            "task": "RecallAtDistance",
            "pairs": self.pairs,
            "interference": self.interference,
            "fillers": self.fillers,
            "queries_per_row": self.queries_per_row,
            "keys": self.keys,
            "values": self.values,
            "filler_tokens": self.filler_tokens,
            "vocab_size": self.vocab_size,
        }

    def prepare(self, cache_dir: Path | None = None, say: Callable[[str], None] = print) -> None:
        """Nothing to prepare: rows are made as they are asked for."""

    def stream(
        self, batch_size: int, row_length: int, seed: int, process_index: int = 0, process_count: int = 1
    ) -> TaskStream:
        """Training batches without end; batch_size counts the rows of all processes."""
        self._check_room(self.longest_row, row_length)
        return TaskStream(self, batch_size, row_length, seed, process_index, process_count)

    def rows(
        self,
        split: TaskSplit,
        first: int,
        count: int,
        *,
        seed: int = 0,
        row_length: int | None = None,
        pairs: int | tuple[int, ...] | None = None,
        interference: int | tuple[int, ...] | None = None,
        fillers: int | tuple[int, ...] | None = None,
    ) -> RecallRows:
        """Rows `first` to `first + count - 1` of a split.

        Args:
            row_length: rows are padded to it on the right; by default the longest row of these settings.
            pairs, interference, fillers: in place of the task's own. Other fillers leave a row's pairs and
                queries as they are, another interference all but its first query.

        Raises:
            InputError: the interference leaves no pair to ask for, or a row is longer than row_length.
        """
        check_seed(seed)
        loads = self.pairs if pairs is None else _numbers(pairs)
        behind = self.interference if interference is None else _numbers(interference)
        delays = self.fillers if fillers is None else _numbers(fillers)
        longest = self._longest_row(loads, behind, delays)
        row_length = longest if row_length is None else row_length
        self._check_room(longest, row_length)
        most, key = max(loads), _KEYS[split]

        words = row_words((seed, key), first, count, 3 + 3 * most + self.queries_per_row)
        settings, choice, order, value, query = np.split(words, 3 + np.cumsum([0, most, most, most]), axis=1)
        load = np.take(loads, below(settings[:, 0], len(loads)))
        delay = np.take(delays, below(settings[:, 1], len(delays)))
        keys = self.key_ids.start + distinct(choice, order, self.keys)
        values = self.value_ids.start + below(value, self.values)
        asked = below(query, load[:, None])
        if behind is not None:
            asked[:, 0] = load - 1 - np.take(behind, below(settings[:, 2], len(behind)))
        filler = below(row_words((seed, key + 1), first, count, max(delays)), self.filler_tokens)
        return self._lay_out(first, row_length, load, delay, keys, values, filler, asked)

    def rows_hash(self, split: TaskSplit, first: int, count: int, **settings) -> str:
        """A hash of rows, to be stored beside what was measured on them; arguments as for `rows`."""
        batch = self.rows(split, first, count, **settings).batch
        whole = hashlib.blake2b(digest_size=16)
        for name in ("tokens", "targets", "segment_ids", "scored"):
            whole.update(np.ascontiguousarray(batch[name], "<i4").tobytes())
        return whole.hexdigest()

    def _lay_out(
        self,
        first: int,
        row_length: int,
        load: np.ndarray,
        delay: np.ndarray,
        keys: np.ndarray,
        values: np.ndarray,
        filler: np.ndarray,
        asked: np.ndarray,
    ) -> RecallRows:
        """Writes what was drawn into rows: load, delay `[B]`; asked `[B, n]`, the pair of each query."""
        (count, queries), row = asked.shape, np.arange(len(asked))[:, None]
        tokens = np.zeros((count, row_length), np.int32)
        written = np.arange(keys.shape[1]) < load[:, None]
        of, pair = np.nonzero(written)
        tokens[of, 2 * pair], tokens[of, 2 * pair + 1] = keys[of, pair], values[of, pair]
        of, place = np.nonzero(np.arange(filler.shape[1]) < delay[:, None])
        tokens[of, 2 * load[of] + place] = filler[of, place]
        scored = (2 * load + delay)[:, None] + np.arange(queries)
        tokens[row, scored] = keys[row, asked]
        targets, weights = np.zeros_like(tokens), np.zeros(tokens.shape, np.float32)
        targets[row, scored], weights[row, scored] = values[row, asked], 1
        batch = {
            "tokens": tokens,
            "targets": targets,
            "segment_ids": (np.arange(row_length) <= scored[:, -1:]).astype(np.int32),
            "loss_weights": weights,
            "scored": scored.astype(np.int32),
        }
        every = np.zeros((count, queries), np.int64)
        metadata = {
            "distance": scored - (2 * asked + 1),
            "interference": load[:, None] - 1 - asked,
            "fillers": every + delay[:, None],
            "pairs": every + load[:, None],
            "query_index": every + np.arange(queries),
            "row": every + first + row,
            "answer": values[row, asked],
            "values_in_row": np.where(written, values, -1),
        }
        return RecallRows(batch, metadata)

    def _longest_row(
        self, pairs: tuple[int, ...], interference: tuple[int, ...] | None, fillers: tuple[int, ...]
    ) -> int:
        """Tokens of a row at the largest of these settings, once they are checked."""
        for name, numbers in (("pairs", pairs), ("interference", interference), ("fillers", fillers)):
            if numbers == ():
                raise InputError(f"RecallAtDistance.{name} = () holds no number.")
        least, most = min(pairs), max(pairs)
        if not 1 <= least <= most <= self.keys:
            raise InputError(
                f"RecallAtDistance.pairs = {pairs} should lie between 1 and keys = {self.keys}, since "
                "the keys of a row are distinct."
            )
        if interference is not None and not 0 <= min(interference) <= max(interference) < least:
            raise InputError(
                f"RecallAtDistance.interference = {interference} should lie between 0 and {least - 1}, "
                f"since the pair that is asked for is one of {least}."
            )
        if min(fillers) < 0 or (max(fillers) > 0 and self.filler_tokens < 1):
            raise InputError(
                f"RecallAtDistance.fillers = {fillers} with filler_tokens = {self.filler_tokens}: fillers "
                "should be at least 0, and come from an alphabet."
            )
        return self.row_tokens(most, max(fillers))

    def _check_room(self, longest: int, row_length: int) -> None:
        if longest > row_length:
            raise InputError(
                f"rows of RecallAtDistance take up to {longest} tokens (2 * pairs + fillers + "
                f"{self.queries_per_row} queries), and row_length is {row_length}."
            )


def _numbers(setting: int | tuple[int, ...]) -> tuple[int, ...]:
    return (setting,) if isinstance(setting, int) else tuple(setting)
