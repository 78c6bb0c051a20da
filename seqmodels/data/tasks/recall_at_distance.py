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

from typing import Any

import gin
import numpy as np

from seqmodels.data.random_bits import below, distinct
from seqmodels.data.tasks.task import Draw, Point, Sweep, Task, TaskRows, check_least, numbers
from seqmodels.errors import InputError


@gin.register
class RecallAtDistance(Task):
    """Rows of recall at a distance. Token ids: fillers first, then keys, then values.

    The defaults fill rows of at most 59 tokens, for a row length of 64: 4 pairs, 20 queries, and delays that
    put the newest pair 1, 2, 4, ... 32 tokens before the first query. Many queries a row matter: with 4,
    training stays where it answers with any value of the row.
    """

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
            fillers: F. Other fillers leave a row's pairs and queries as they are, another interference all
                but its first query.
            queries_per_row: n.
            keys, values, filler_tokens: the sizes of the three alphabets.
        """
        self.keys, self.values, self.filler_tokens = keys, values, filler_tokens
        self.filler_ids = range(filler_tokens)
        self.key_ids = range(filler_tokens, filler_tokens + keys)
        self.value_ids = range(filler_tokens + keys, filler_tokens + keys + values)
        self.vocab_size = filler_tokens + keys + values
        self.settings = {
            "pairs": numbers(pairs),
            "interference": None if interference is None else numbers(interference),
            "fillers": numbers(fillers),
            "queries_per_row": queries_per_row,
            "keys": keys,
            "values": values,
            "filler_tokens": filler_tokens,
        }
        check_least("RecallAtDistance", queries_per_row=queries_per_row, keys=keys, values=values)
        self.row_tokens()

    def row_tokens(self, **changes: Any) -> int:
        settings = self.settings | changes
        pairs, fillers = numbers(settings["pairs"]), numbers(settings["fillers"])
        behind = None if settings["interference"] is None else numbers(settings["interference"])
        for name, several in (("pairs", pairs), ("interference", behind), ("fillers", fillers)):
            if several == ():
                raise InputError(f"RecallAtDistance.{name} = () holds no number.")
        least, most = min(pairs), max(pairs)
        if not 1 <= least <= most <= self.keys:
            raise InputError(
                f"RecallAtDistance.pairs = {pairs} should lie between 1 and keys = {self.keys}, since "
                "the keys of a row are distinct."
            )
        if behind is not None and not 0 <= min(behind) <= max(behind) < least:
            raise InputError(
                f"RecallAtDistance.interference = {behind} should lie between 0 and {least - 1}, since the "
                f"pair that is asked for is one of {least}."
            )
        if min(fillers) < 0 or (max(fillers) > 0 and self.filler_tokens < 1):
            raise InputError(
                f"RecallAtDistance.fillers = {fillers} with filler_tokens = {self.filler_tokens}: fillers "
                "should be at least 0, and come from an alphabet."
            )
        return 2 * most + max(fillers) + settings["queries_per_row"]

    def sweeps(self, longest: int) -> list[Sweep]:
        """By delay: nothing but fillers stands between a pair and its query (I = 0), at distances that are
        powers of two. By interference: nothing but other pairs does (F = 0), at the largest load K of
        training as far as that goes, then with K = I + 1 pairs.
        """
        pairs = max(self.settings["pairs"])
        delays = [self._point(0, (1 << n) - 1, pairs) for n in range(longest.bit_length() + 1)]
        counts = sorted({0, pairs - 1, *(1 << n for n in range(self.keys.bit_length()))})
        behind = [self._point(count, 0, max(pairs, count + 1)) for count in counts if count < self.keys]
        delays = [point for point in delays if self.filler_tokens or not point.settings["fillers"]]
        fitting = [
            [point for point in points if self.row_tokens(**point.settings) <= longest]
            for points in (delays, behind)
        ]
        if not fitting[0]:
            raise InputError(
                f"the shortest row of the task takes {self.row_tokens(**delays[0].settings)} tokens, and "
                f"rows of up to {longest} are evaluated: raise evaluate.row_length"
            )
        axis = "distance from value to query (tokens)"
        return [Sweep("delay", axis, fitting[0]), Sweep("interference", axis, fitting[1])]

    def _point(self, interference: int, fillers: int, pairs: int) -> Point:
        settings = {"interference": interference, "fillers": fillers, "pairs": pairs}
        familiar = pairs <= max(self.settings["pairs"])
        return Point(2 * interference + fillers + 1, settings, pairs, familiar)

    def _make(self, draw: Draw, row_length: int, settings: dict[str, Any]) -> TaskRows:
        loads, delays = numbers(settings["pairs"]), numbers(settings["fillers"])
        most, queries = max(loads), settings["queries_per_row"]
        words = draw.words(3 + 3 * most + queries)
        chosen, choice, order, value, query = np.split(words, 3 + np.cumsum([0, most, most, most]), axis=1)
        load = np.take(loads, below(chosen[:, 0], len(loads)))
        delay = np.take(delays, below(chosen[:, 1], len(delays)))
        keys = self.key_ids.start + distinct(choice, order, self.keys)
        values = self.value_ids.start + below(value, self.values)
        asked = below(query, load[:, None])
        if settings["interference"] is not None:
            behind = numbers(settings["interference"])
            asked[:, 0] = load - 1 - np.take(behind, below(chosen[:, 2], len(behind)))
        filler = below(draw.words(max(delays), stream=1), self.filler_tokens)
        return self._lay_out(draw.first, row_length, load, delay, keys, values, filler, asked)

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
    ) -> TaskRows:
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
        return TaskRows(batch, metadata)
