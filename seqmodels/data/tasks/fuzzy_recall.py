"""Fuzzy recall: keys and values of one to three tokens.

    row = [K pairs: key tokens, value tokens] [F fillers] [n queries: key tokens, one mark a value token]

Keys and values come from alphabets of their own, so that every border within the pairs is seen. A key's last
token is where its answer starts: there the value's first token is the target, and at mark i (from 1) its
token i + 1. The last mark has no target: it ends the query, so that the tokens of the next key are not taken
for more of this one. The answer is never fed back: the marks say how many tokens are asked for, and no more.

All tokens of an answer have the same distance, position of the query less position of the value's token:
with I pairs after the target, l_k and l_v tokens in its key and value, and r queries before this one,

    d = (tokens of the I pairs) + F + l_k + l_v - 1 + (tokens of the r queries),

which is 2 I + F + 1 for the first query where all lengths are 1. Lengths are drawn evenly, then keys of a
length without repetition, and values with it.
"""

from typing import Any

import gin
import numpy as np

from seqmodels.data.random_bits import below, distinct
from seqmodels.data.tasks.layout import put, task_rows
from seqmodels.data.tasks.task import Draw, Point, Sweep, Task, TaskRows, check_least, doubling, numbers
from seqmodels.errors import InputError

Numbers = int | tuple[int, ...]


@gin.register
class FuzzyRecall(Task):
    """Rows of fuzzy recall. Token ids: the mark, then fillers, keys, values.

    A query of the metadata is one token of an answer; `asked` counts the keys asked for, `answer_token` the
    tokens of the answer. The defaults fill rows of at most 87 tokens.
    """

    def __init__(
        self,
        pairs: Numbers = 4,
        interference: Numbers | None = None,
        fillers: Numbers = (0, 1, 3, 7, 15),
        queries_per_row: int = 8,
        key_lengths: Numbers = (1, 2, 3),
        value_lengths: Numbers = (1, 2, 3),
        keys: int = 32,
        values: int = 32,
        filler_tokens: int = 16,
    ):
        """
        Args:
            pairs: K. Here and in the next two, of several numbers each row draws one.
            interference: I of the pair that the first query asks for. None: any pair of the row, as it is
                for the other queries.
            fillers: F.
            queries_per_row: n.
            key_lengths, value_lengths: tokens of a key and of a value; of several, each draws one.
            keys, values, filler_tokens: the sizes of the three alphabets.
        """
        self.keys, self.values, self.filler_tokens = keys, values, filler_tokens
        self.filler_ids = range(1, 1 + filler_tokens)
        self.key_ids = range(1 + filler_tokens, 1 + filler_tokens + keys)
        self.value_ids = range(self.key_ids.stop, self.key_ids.stop + values)
        self.vocab_size = self.value_ids.stop
        self.settings = {
            "pairs": numbers(pairs),
            "interference": None if interference is None else numbers(interference),
            "fillers": numbers(fillers),
            "queries_per_row": queries_per_row,
            "key_lengths": numbers(key_lengths),
            "value_lengths": numbers(value_lengths),
            "keys": keys,
            "values": values,
            "filler_tokens": filler_tokens,
        }
        check_least("FuzzyRecall", queries_per_row=queries_per_row, keys=keys)
        check_least("FuzzyRecall", 2, values=values)  # one alone has no bit to recall
        check_least("FuzzyRecall", 0, filler_tokens=filler_tokens)
        self.row_tokens()

    @property
    def mark_id(self) -> int:
        return self.first_id

    def row_tokens(self, **changes: Any) -> int:
        settings = self.settings | changes
        several = {name: numbers(settings[name]) for name in ("pairs", "key_lengths", "value_lengths")}
        check_least("FuzzyRecall", **several)
        fillers = numbers(settings["fillers"])
        check_least("FuzzyRecall", 0, fillers=fillers)
        pairs, key_lengths, value_lengths = several.values()
        if max(pairs) > self.keys ** min(key_lengths):
            raise InputError(
                f"FuzzyRecall.pairs = {pairs} should be at most keys ** {min(key_lengths)} = "
                f"{self.keys ** min(key_lengths)}, since all keys of a row may have that length, and differ."
            )
        if self.keys ** max(key_lengths) >= 1 << 31:
            raise InputError(
                f"FuzzyRecall.keys = {self.keys} with key_lengths = {key_lengths} make more keys than can be "
                "drawn from, 2 ** 31."
            )
        if settings["interference"] is not None:
            behind = numbers(settings["interference"])
            if behind == () or not 0 <= min(behind) <= max(behind) < min(pairs):
                raise InputError(
                    f"FuzzyRecall.interference = {behind} should lie between 0 and {min(pairs) - 1}, since "
                    f"the pair that is asked for is one of {min(pairs)}."
                )
        if max(fillers) > 0 and self.filler_tokens < 1:
            raise InputError(f"FuzzyRecall.fillers = {fillers} with filler_tokens = 0 have no alphabet.")
        both = max(key_lengths) + max(value_lengths)
        return both * (max(pairs) + settings["queries_per_row"]) + max(fillers)

    def sweeps(self, longest: int) -> list[Sweep]:
        """By delay: F fillers between the newest pair and its query. By interference: I pairs after the
        target and no filler, at the largest load of training as far as that goes, then with K = I + 1.
        """
        pairs = max(self.settings["pairs"])
        most = self.keys ** min(self.settings["key_lengths"])
        delays = [self._point(0, (1 << n) - 1, pairs) for n in range(longest.bit_length() + 1)]
        counts = sorted({0, pairs - 1, *doubling(1, min(most - 1, longest))})
        behind = [self._point(count, 0, max(pairs, count + 1)) for count in counts if count < most]
        delays = [point for point in delays if self.filler_tokens or not point.settings["fillers"]]
        return [
            Sweep("delay", "fillers before the query, and 1 (tokens)", self._fitting(delays, longest)),
            Sweep("interference", "pairs after the target, and 1 (pairs)", self._fitting(behind, longest)),
        ]

    def _point(self, interference: int, fillers: int, pairs: int) -> Point:
        settings = {"interference": interference, "fillers": fillers, "pairs": pairs}
        familiar = pairs <= max(self.settings["pairs"])
        return Point(interference + fillers + 1, settings, pairs, familiar)

    def _make(self, draw: Draw, row_length: int, settings: dict[str, Any]) -> TaskRows:
        loads, delays = numbers(settings["pairs"]), numbers(settings["fillers"])
        key_lengths, value_lengths = numbers(settings["key_lengths"]), numbers(settings["value_lengths"])
        most, asks, width = max(loads), settings["queries_per_row"], max(value_lengths)
        lengths = sorted(set(key_lengths))
        sizes = [3, asks, most, most, width * most, *[2 * most for _ in lengths]]
        words = np.split(draw.words(sum(sizes)), np.cumsum(sizes)[:-1], axis=1)
        chosen, query, key_word, value_word, token_word, *choices = words
        load = np.take(loads, below(chosen[:, 0], len(loads)))
        delay = np.take(delays, below(chosen[:, 1], len(delays)))
        asked = below(query, load[:, None])
        if settings["interference"] is not None:
            behind = numbers(settings["interference"])
            asked[:, 0] = load - 1 - np.take(behind, below(chosen[:, 2], len(behind)))
        key_length = np.take(key_lengths, below(key_word, len(key_lengths)))
        value_length = np.take(value_lengths, below(value_word, len(value_lengths)))
        codes = [
            distinct(*np.split(choice, 2, axis=1), self.keys**length)
            for choice, length in zip(choices, lengths, strict=True)
        ]
        code = np.choose(np.searchsorted(lengths, key_length), codes)
        place_value = self.keys ** np.arange(max(key_lengths))
        keys = self.key_ids.start + code[:, :, None] // place_value % self.keys
        values = self.value_ids.start + below(token_word, self.values).reshape(draw.count, most, width)
        filler = self.filler_ids.start + below(draw.words(max(delays), stream=1), self.filler_tokens)

        has_key = np.arange(max(key_lengths)) < key_length[:, :, None]
        has_value = np.arange(width) < value_length[:, :, None]
        has = np.concatenate([has_key, has_value], axis=2)
        tokens, at = np.zeros((draw.count, row_length), np.int32), np.zeros(draw.count, np.int64)
        written = has & (np.arange(most) < load[:, None])[:, :, None]
        pairs = np.concatenate([keys, values], axis=2)
        places, at = put(tokens, at, _flat(pairs), _flat(written))
        value_at = places.reshape(pairs.shape)[:, :, max(key_lengths) :]
        _, at = put(tokens, at, filler, np.arange(filler.shape[1]) < delay[:, None])
        row = np.arange(draw.count)[:, None]
        queries = np.concatenate([keys, np.full_like(values, self.mark_id)], axis=2)[row, asked]
        places, end = put(tokens, at, _flat(queries), _flat(has[row, asked]))
        ends = places.reshape(queries.shape)[:, :, :1] + key_length[row, asked][:, :, None] - 1
        part = np.broadcast_to(np.arange(width), (draw.count, asks, width))
        return task_rows(
            draw,
            tokens,
            end,
            _flat(ends + part),
            _flat(values[row, asked]),
            _flat(value_at[row, asked]),
            kept=_flat(has_value[row, asked]),
            pairs=load,
            values_in_row=_packed(values, written[:, :, max(key_lengths) :]),
            interference=np.repeat(load[:, None] - 1 - asked, width, axis=1),
            fillers=delay[:, None],
            asked=np.repeat(np.arange(asks), width),
            answer_token=_flat(part),
            key_length=np.repeat(key_length[row, asked], width, axis=1),
            value_length=np.repeat(value_length[row, asked], width, axis=1),
        )


def _flat(items: np.ndarray) -> np.ndarray:
    """`[B, M, W]` as `[B, M W]`."""
    return items.reshape(len(items), -1)


def _packed(values: np.ndarray, kept: np.ndarray) -> np.ndarray:
    """The kept values of each row side by side, and -1 behind them: `[B, M, W]` to `[B, M W]`."""
    found = _flat(np.where(kept, values, -1))
    return np.take_along_axis(found, np.argsort(found < 0, axis=1, kind="stable"), axis=1)
