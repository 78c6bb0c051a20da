"""Recall at a distance: which value was written with this key, and how long ago?

    row = [P pairs] [the target pair k*, v*] [I pairs] [F fillers] [n query keys]

Three knobs that can be turned apart: the load K = P + 1 + I pairs, the interference I of pairs written after the
target, and the delay F of fillers from an alphabet of their own, so that no filler is a key or a value. Query r (from
0) of a pair with I pairs after it has the distance, position of the query less position of the pair's value,

    d = 2 I + F + 1 + r,

and a row has 2 K + F + n tokens. Keys are distinct; values and queries are drawn uniformly, with repetition. The
answer is the target at the query's own position and is never fed back.
"""

import hashlib
from collections.abc import Sequence
from typing import Literal, NamedTuple

import gin
import numpy as np

from seqmodels.data.packing import Batch, process_share
from seqmodels.data.random_bits import below, check_seed, random_words
from seqmodels.errors import InputError

Settings = int | Sequence[int]
"""One number for every row, or several, of which each row draws one."""

# Rows of different splits, and of different parts of a row, come from different keys. Part of every fingerprint.
FORMAT = 1
_SPLITS = {"train": 0, "validation": 1, "test": 2}
_PAIRS_AND_QUERIES, _FILLERS = 0, 1


class RecallRows(NamedTuple):
    """Rows of the task, and what is known of each query.

    batch: tokens, targets, segment_ids int32 `[B, T]`, loss_weights float32 `[B, T]`, and scored int32 `[B, n]`, the
        positions of the queries, the only ones with weight.
    metadata: int64 arrays. Of each query `[B, n]`: distance, interference, fillers, pairs, query_index, row, answer.
        Of each row: values_in_row `[B, K]`, in the order of writing, -1 where a row has fewer pairs than another.
    """

    batch: Batch
    metadata: dict[str, np.ndarray]


@gin.register
class RecallAtDistance:
    """Rows of recall at a distance, as a pure function of (settings, seed, split, row index).

    Token ids: fillers first, then keys, then values; the last id is the last value.

    The defaults fit rows of 64 tokens: 4 pairs, 20 queries, and delays that put the newest pair at the distances
    1, 2, 4, ... 32 of the first query. Many queries a row matter: with 4 a row, training stays on the plateau of
    answering with any value of the row.
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
            pairs: K, pairs in a row. Here and below, of several numbers each row draws one.
            interference: I of the first query's pair; None draws it from all pairs, as the other queries' always is.
            fillers: F, tokens between the last pair and the first query.
            queries_per_row: n.
            keys, values, filler_tokens: sizes of the three alphabets, which share no id.
        """
        self.pairs, self.fillers = _numbers(pairs), _numbers(fillers)
        self.interference = None if interference is None else _numbers(interference)
        self.queries_per_row, self.keys, self.values, self.filler_tokens = queries_per_row, keys, values, filler_tokens
        self._check(self.pairs, self.interference, self.fillers)
        for name in ("queries_per_row", "keys", "values"):
            if getattr(self, name) < 1:
                raise InputError(f"RecallAtDistance.{name} = {getattr(self, name)} should be at least 1.")

    @property
    def vocab_size(self) -> int:
        return self.filler_tokens + self.keys + self.values

    @property
    def filler_ids(self) -> range:
        return range(self.filler_tokens)

    @property
    def key_ids(self) -> range:
        return range(self.filler_tokens, self.filler_tokens + self.keys)

    @property
    def value_ids(self) -> range:
        return range(self.filler_tokens + self.keys, self.vocab_size)

    @property
    def longest_row(self) -> int:
        """2 K + F + n at the largest settings: the least row_length."""
        return self.row_tokens(max(self.pairs), max(self.fillers))

    def row_tokens(self, pairs: int, fillers: int) -> int:
        """Tokens of a row, 2 K + F + n."""
        return 2 * pairs + fillers + self.queries_per_row

    @property
    def fingerprint(self) -> str:
        return hashlib.blake2b(f"{FORMAT} {self.describe()}".encode(), digest_size=16).hexdigest()

    def describe(self) -> dict[str, object]:
        """The settings, and chance: one value of all, and any value of the row."""
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

    def prepare(self, cache_dir=None, say=print) -> None:
        """Nothing to prepare: rows are made as they are asked for."""

    def stream(
        self, batch_size: int, row_length: int, seed: int, process_index: int = 0, process_count: int = 1
    ) -> "RecallStream":
        """Training batches without end and without a row twice; `batch_size` counts the rows of all processes."""
        return RecallStream(self, batch_size, row_length, seed, process_share(batch_size, process_index, process_count))

    def rows(
        self,
        split: Literal["train", "validation", "test"],
        first: int,
        count: int,
        *,
        seed: int = 0,
        row_length: int | None = None,
        pairs: Settings | None = None,
        interference: Settings | None = None,
        fillers: Settings | None = None,
    ) -> RecallRows:
        """Rows `first` to `first + count - 1` of a split.

        row_length: rows are padded to it on the right; by default the longest row of these settings.
        pairs, interference, fillers: in place of the task's own. Row by row, other fillers leave pairs, values and
            queries as they are; so do other interferences, but for the first query.

        Raises:
            InputError: an interference leaves no place for the target, or a row is longer than row_length.
        """
        check_seed(seed)
        loads = self.pairs if pairs is None else _numbers(pairs)
        delays = self.fillers if fillers is None else _numbers(fillers)
        behind = self.interference if interference is None else _numbers(interference)
        self._check(loads, behind, delays)
        longest = self.row_tokens(max(loads), max(delays))
        row_length = longest if row_length is None else row_length
        self._check_room(max(loads), max(delays), row_length)

        most, queries = max(loads), self.queries_per_row
        key = 2 * _SPLITS[split]
        words = _row_words((seed, key + _PAIRS_AND_QUERIES), first, count, 4 + 3 * most + queries)
        settings, distinct, order, value, query = np.split(words, 4 + np.cumsum([0, most, most, most]), axis=1)
        load = np.take(loads, below(settings[:, 0], len(loads)))
        delay = np.take(delays, below(settings[:, 1], len(delays)))
        if behind is None:
            after = below(settings[:, 2], load)
        else:
            after = np.take(behind, below(settings[:, 3], len(behind)))
        written_keys = self.key_ids.start + _distinct(distinct, order, self.keys)
        written_values = self.value_ids.start + below(value, self.values)
        asked = below(query, load[:, None])
        asked[:, 0] = load - 1 - after
        filler_words = _row_words((seed, key + _FILLERS), first, count, max(delays))

        row = np.arange(count)[:, None]
        tokens = np.zeros((count, row_length), np.int32)
        of, pair = np.nonzero(np.arange(most) < load[:, None])
        tokens[of, 2 * pair] = written_keys[of, pair]
        tokens[of, 2 * pair + 1] = written_values[of, pair]
        of, place = np.nonzero(np.arange(max(delays)) < delay[:, None])
        tokens[of, 2 * load[of] + place] = below(filler_words[of, place], self.filler_tokens)
        scored = (2 * load + delay)[:, None] + np.arange(queries)
        tokens[row, scored] = written_keys[row, asked]
        answer = written_values[row, asked]
        targets, weights = np.zeros_like(tokens), np.zeros(tokens.shape, np.float32)
        targets[row, scored], weights[row, scored] = answer, 1
        real = np.arange(row_length) < (2 * load + delay + queries)[:, None]
        batch = {
            "tokens": tokens,
            "targets": targets,
            "segment_ids": real.astype(np.int32),
            "loss_weights": weights,
            "scored": scored.astype(np.int32),
        }
        each = np.zeros((count, queries), np.int64)
        metadata = {
            "distance": scored - (2 * asked + 1),
            "interference": load[:, None] - 1 - asked,
            "fillers": each + delay[:, None],
            "pairs": each + load[:, None],
            "query_index": each + np.arange(queries),
            "row": each + first + row,
            "answer": answer,
            "values_in_row": np.where(np.arange(most) < load[:, None], written_values, -1),
        }
        return RecallRows(batch, metadata)

    def rows_hash(self, split: Literal["train", "validation", "test"], first: int, count: int, **settings) -> str:
        """A hash of the bytes of rows, stored beside what was measured on them; arguments as of `rows`."""
        batch = self.rows(split, first, count, **settings).batch
        whole = hashlib.blake2b(digest_size=16)
        for name in ("tokens", "targets", "segment_ids", "scored"):
            whole.update(np.ascontiguousarray(batch[name], "<i4").tobytes())
        return whole.hexdigest()

    def _check(self, pairs: tuple[int, ...], interference: tuple[int, ...] | None, fillers: tuple[int, ...]) -> None:
        if min(pairs) < 1 or max(pairs) > self.keys:
            raise InputError(
                f"RecallAtDistance.pairs = {pairs} should lie between 1 and keys = {self.keys}: keys are distinct."
            )
        if interference is not None and not 0 <= min(interference) <= max(interference) < min(pairs):
            raise InputError(
                f"RecallAtDistance.interference = {interference} should lie between 0 and {min(pairs) - 1}, so that the "
                f"target is one of the {min(pairs)} pairs."
            )
        if min(fillers) < 0 or (max(fillers) and self.filler_tokens < 1):
            raise InputError(
                f"RecallAtDistance.fillers = {fillers} with filler_tokens = {self.filler_tokens}: fillers should be at "
                "least 0, and need an alphabet."
            )

    def _check_room(self, pairs: int, fillers: int, row_length: int) -> None:
        longest = self.row_tokens(pairs, fillers)
        if longest > row_length:
            raise InputError(
                f"a row of RecallAtDistance takes 2 K + F + n = 2*{pairs} + {fillers} + {self.queries_per_row} = "
                f"{longest} tokens, and row_length is {row_length}."
            )


class RecallStream:
    """A process's share of each global batch of training rows; the position is the number of rows handed out."""

    def __init__(self, task: RecallAtDistance, batch_size: int, row_length: int, seed: int, share: np.ndarray):
        check_seed(seed)
        task._check_room(max(task.pairs), max(task.fillers), row_length)
        self._task, self._batch_size, self._row_length, self._seed = task, batch_size, row_length, seed
        self._share, self._next_row = share, 0

    def __iter__(self) -> "RecallStream":
        return self

    def __next__(self) -> Batch:
        first = self._next_row + int(self._share[0])
        rows = self._task.rows("train", first, len(self._share), seed=self._seed, row_length=self._row_length)
        self._next_row += self._batch_size
        return rows.batch

    def state(self) -> dict[str, int]:
        return {"row": self._next_row}

    def restore(self, state: dict[str, int]) -> None:
        self._next_row = state["row"]


def _numbers(setting: Settings) -> tuple[int, ...]:
    return (setting,) if isinstance(setting, int) else tuple(setting)


def _row_words(key: tuple[int, int], first: int, count: int, needed: int) -> np.ndarray:
    """uint32 random words `[count, needed]`; those of a row depend on its index alone, however many rows are asked."""
    blocks = -(-needed // 8)
    words = random_words(key, count * blocks, first * blocks).view(np.uint32)
    return words.reshape(count, 8 * blocks)[:, :needed]


def _distinct(choice: np.ndarray, order: np.ndarray, bound: int) -> np.ndarray:
    """K different numbers below `bound` in random order, for each row of words `[B, K]`.

    Floyd's algorithm: the work depends on K, not on the size of the alphabet. (Bentley and Floyd, CACM 30, 1987.)
    """
    count = choice.shape[1]
    chosen = np.empty(choice.shape, np.int64)
    for i in range(count):
        newest = bound - count + i
        number = below(choice[:, i], newest + 1)
        taken = (chosen[:, :i] == number[:, None]).any(axis=1)
        chosen[:, i] = np.where(taken, newest, number)
    return np.take_along_axis(chosen, np.argsort(order, axis=1, kind="stable"), axis=1)
