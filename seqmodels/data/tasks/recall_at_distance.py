"""Recall at a distance: which value was written with this key, and how long ago?

    row = [P pairs] [the target pair k*, v*] [I pairs] [F fillers] [n query keys]

Three knobs that turn apart: the load K = P + 1 + I pairs, the interference I of pairs written after the
target, and the delay F of fillers from an alphabet of their own, so that no filler is a key or a value.
Query r (from 0) of a pair with I pairs after it has the distance, position of the query less position of the
pair's value,

    d = 2 I + F + 1 + r,

and a row has 2 K + F + n tokens. Keys are distinct; values and queries are drawn uniformly, with repetition.
The answer is the target at the query's own position, and is never fed back.

Switches, each off by default, leave that rule as it is, since what they add stands before the K pairs or in
their place:

    row = [query_first: the n query keys] [rebind: R older pairs] [K pairs] [F fillers] [n query keys]

rebind: R keys of the row are written before with another value each; the last one counts. noisy: some of the
K pairs are noise, two filler tokens; they count in I, since they stand between, and are never asked for.
read_twice: what is written, older pairs and noise included, is written a second time; distances are from
there. query_first: what will be asked is known before anything is written.
"""

from typing import Any

import gin
import numpy as np

from seqmodels.data.random_bits import below, distinct
from seqmodels.data.tasks.layout import put, task_rows
from seqmodels.data.tasks.recall_switches import WORDS_PER_PAIR, Switched, noise_pairs, share, switch
from seqmodels.data.tasks.task import Draw, Point, Sweep, Task, TaskRows, check_least, doubling, numbers
from seqmodels.errors import InputError

_SWITCHES = ("rebind", "query_first", "read_twice", "noisy")


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
        rebind: bool | float = False,
        query_first: bool = False,
        read_twice: bool = False,
        noisy: float = 0.0,
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
            rebind: the fraction of the keys that had another value before; True: all.
            query_first: whether the queries also stand before the pairs.
            read_twice: whether the pairs are written twice.
            noisy: the fraction of the pairs that are noise.
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
            "rebind": float(rebind),
            "query_first": query_first,
            "read_twice": read_twice,
            "noisy": float(noisy),
        }
        check_least("RecallAtDistance", queries_per_row=queries_per_row, keys=keys)
        check_least("RecallAtDistance", 2, values=values)  # one alone has no bit to recall
        check_least("RecallAtDistance", 0, filler_tokens=filler_tokens)
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
        self._check_switches(settings)
        written = max(2 * self._written(load, settings) for load in pairs)
        reads, asked = 1 + settings["read_twice"], 1 + settings["query_first"]
        return reads * written + max(fillers) + asked * settings["queries_per_row"]

    def describe(self) -> dict[str, object]:
        """The settings, without the switches that are off: these leave rows as they are without them."""
        about = super().describe()
        return {name: value for name, value in about.items() if value or name not in _SWITCHES}

    def sweeps(self, longest: int) -> list[Sweep]:
        """By delay: nothing but fillers stands between a pair and its query (I = 0), at distances that are
        powers of two. By interference: nothing but other pairs does (F = 0), at the largest load K of
        training as far as that goes, then with K = I + 1 pairs.
        """
        pairs = max(self.settings["pairs"])
        delays = [self._point(0, (1 << n) - 1, pairs) for n in range(longest.bit_length() + 1)]
        counts = sorted({0, pairs - 1, *doubling(1, self.keys)})
        behind = [self._point(count, 0, max(pairs, count + 1)) for count in counts if count < self.keys]
        delays = [point for point in delays if self.filler_tokens or not point.settings["fillers"]]
        axis = "distance from value to query (tokens)"
        return [
            Sweep("delay", axis, self._fitting(delays, longest)),
            Sweep("interference", axis, self._fitting(behind, longest)),
        ]

    def _point(self, interference: int, fillers: int, pairs: int) -> Point:
        settings = {"interference": interference, "fillers": fillers, "pairs": pairs}
        familiar = pairs <= max(self.settings["pairs"])
        real = pairs - int(noise_pairs(self.settings["noisy"], pairs))
        return Point(2 * interference + fillers + 1, settings, real, familiar)

    def _check_switches(self, settings: dict[str, Any]) -> None:
        rebind, noisy = settings["rebind"], settings["noisy"]
        if not 0 <= rebind <= 1:
            raise InputError(f"RecallAtDistance.rebind = {rebind} should be a fraction from 0 to 1.")
        if not 0 <= noisy < 1:
            raise InputError(f"RecallAtDistance.noisy = {noisy} should be a fraction from 0 to below 1.")
        if noisy and self.filler_tokens < 1:
            raise InputError(
                f"RecallAtDistance.noisy = {noisy} with filler_tokens = 0: noise comes from the fillers."
            )

    def _written(self, load: int, settings: dict[str, Any]) -> int:
        """The pairs, older ones included, that a row of K = `load` writes."""
        real = load - noise_pairs(settings["noisy"], load)
        return load + int(share(settings["rebind"], real))

    def _make(self, draw: Draw, row_length: int, settings: dict[str, Any]) -> TaskRows:
        loads, delays = numbers(settings["pairs"]), numbers(settings["fillers"])
        most, queries = max(loads), settings["queries_per_row"]
        words = draw.words(3 + 3 * most + queries)
        chosen, choice, order, value, query = np.split(words, 3 + np.cumsum([0, most, most, most]), axis=1)
        load = np.take(loads, below(chosen[:, 0], len(loads)))
        delay = np.take(delays, below(chosen[:, 1], len(delays)))
        keys = distinct(choice, order, self.keys)
        values = below(value, self.values)
        asked = below(query, load[:, None])
        if settings["interference"] is not None:
            behind = numbers(settings["interference"])
            asked[:, 0] = load - 1 - np.take(behind, below(chosen[:, 2], len(behind)))
        filler = self.filler_ids.start + below(draw.words(max(delays), stream=1), self.filler_tokens)
        switched = None
        if settings["rebind"] or settings["noisy"]:
            switched = switch(
                draw.words(WORDS_PER_PAIR * most, stream=2),
                load,
                asked[:, 0],
                values,
                noisy=settings["noisy"],
                rebind=settings["rebind"],
                noise_tokens=self.filler_tokens,
                values=self.values,
            )
            real = switched.real
            of_real = below(query[:, 1:], real.sum(axis=1)[:, None])
            asked[:, 1:] = np.take_along_axis(np.argsort(~real, axis=1, kind="stable"), of_real, axis=1)
        return self._lay_out(draw, row_length, settings, load, delay, keys, values, filler, asked, switched)

    def _lay_out(
        self,
        draw: Draw,
        row_length: int,
        settings: dict[str, Any],
        load: np.ndarray,
        delay: np.ndarray,
        keys: np.ndarray,
        values: np.ndarray,
        filler: np.ndarray,
        asked: np.ndarray,
        switched: Switched | None,
    ) -> TaskRows:
        """Writes what was drawn into rows: load, delay `[B]`; asked `[B, n]`, the pair of each query."""
        count, most = keys.shape
        tokens = np.zeros((count, row_length), np.int32)
        key_ids, value_ids = self.key_ids.start + keys, self.value_ids.start + values
        queries = np.take_along_axis(key_ids, asked, axis=1)
        written = real = np.arange(most) < load[:, None]
        pairs, in_row, known, older = np.stack([key_ids, value_ids], axis=2), value_ids, {}, None
        if switched is not None:
            real = switched.real
            pairs = np.where(real[:, :, None], pairs, self.filler_ids.start + switched.noise)
        in_row = np.where(real, in_row, -1)
        if settings["rebind"]:
            stale = self.value_ids.start + switched.stale
            known["stale_answer"] = np.take_along_axis(np.where(switched.rebound, stale, -1), asked, axis=1)
            older = np.stack([key_ids, stale], axis=2)
            older = np.take_along_axis(older, switched.order[:, :, None], axis=1).reshape(count, 2 * most)
            rebound = np.arange(most) < switched.rebound.sum(axis=1)[:, None]
            in_row = np.concatenate([np.where(rebound, older[:, 1::2], -1), in_row], axis=1)
        if switched is not None:  # no gaps where noise is, or where fewer keys were rebound
            in_row = np.take_along_axis(in_row, np.argsort(in_row < 0, axis=1, kind="stable"), axis=1)

        at = np.zeros(count, np.int64)
        if settings["query_first"]:
            _, at = put(tokens, at, queries)
        for _ in range(1 + settings["read_twice"]):
            if older is not None:
                _, at = put(tokens, at, older, np.repeat(rebound, 2, axis=1))
            places, at = put(tokens, at, pairs.reshape(count, 2 * most), np.repeat(written, 2, axis=1))
        _, at = put(tokens, at, filler, np.arange(filler.shape[1]) < delay[:, None])
        scored, end = put(tokens, at, queries)
        return task_rows(
            draw,
            tokens,
            end,
            scored,
            np.take_along_axis(value_ids, asked, axis=1),
            np.take_along_axis(places[:, 1::2], asked, axis=1),
            pairs=real.sum(axis=1),
            values_in_row=in_row,
            interference=load[:, None] - 1 - asked,
            fillers=delay[:, None],
            **known,
        )
