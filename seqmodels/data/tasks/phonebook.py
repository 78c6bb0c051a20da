"""Phonebook: whose number is this, from any depth of the book?

    row = [K entries: a name, its number] [5 queries: a name, and all digits of its number but the last]

Names are unique in a row and have several tokens; a number has one token a digit. A query asks for the number
at the name's last token, and for each further digit at the digit before it, as where a model writes the
number itself. The five queries of a row ask for one entry of each fifth of the book, in random order, so no
number is shown before it is asked for except in its entry. All digits of a query have the same distance.
(Jelassi, Brandfonbrener, Kakade, Malach, "Repeat after me: transformers are better than state space models at
copying", ICML 2024.)
"""

from typing import Any

import gin
import numpy as np

from seqmodels.data.random_bits import below, distinct
from seqmodels.data.tasks.layout import put, task_rows
from seqmodels.data.tasks.task import Draw, Point, Sweep, Task, TaskRows, check_least, doubling, numbers
from seqmodels.errors import InputError

STRATA = 5
DIGITS = 10


@gin.register
class Phonebook(Task):
    """Rows of the phonebook. Token ids: the ten digits, then the tokens of names.

    The defaults fill rows of at most 60 tokens.
    """

    def __init__(
        self,
        entries: int | tuple[int, ...] = (5, 8),
        digits: int = 3,
        name_tokens: int = 2,
        names: int = 32,
        depth: int | None = None,
    ):
        """
        Args:
            entries: K, at least 5; of several numbers each row draws one.
            digits: of a number.
            name_tokens: of a name.
            names: the size of their alphabet.
            depth: the fifth of the book, 0 to 4, that the first query asks about; None: any.
        """
        self.names = names
        self.value_ids, self.key_ids = range(DIGITS), range(DIGITS, DIGITS + names)
        self.vocab_size = DIGITS + names
        self.settings = {
            "entries": numbers(entries),
            "digits": digits,
            "name_tokens": name_tokens,
            "names": names,
            "depth": depth,
        }
        check_least("Phonebook", names=names, digits=digits, name_tokens=name_tokens)
        self.row_tokens()

    def row_tokens(self, **changes: Any) -> int:
        settings = self.settings | changes
        entries, digits, depth = numbers(settings["entries"]), settings["digits"], settings["depth"]
        check_least("Phonebook", STRATA, entries=entries)
        if max(entries) > self._possible:
            raise InputError(
                f"Phonebook.entries = {entries} should be at most {self._possible}: {self.names} names of "
                f"{self.settings['name_tokens']} tokens make no more."
            )
        if self._possible >= 1 << 31:
            raise InputError(
                f"Phonebook.names = {self.names} make more names than can be drawn from, 2 ** 31."
            )
        if depth is not None and not 0 <= depth < STRATA:
            raise InputError(f"Phonebook.depth = {depth} should be a fifth of the book, 0 to {STRATA - 1}.")
        name = settings["name_tokens"]
        return max(entries) * (name + digits) + STRATA * (name + digits - 1)

    def sweeps(self, longest: int) -> list[Sweep]:
        """By depth, at the largest book of training. By the number of entries, from any depth."""
        most = max(self.settings["entries"])
        depths = [
            Point(100 * (depth + 0.5) / STRATA, {"depth": depth, "entries": most}, DIGITS, True)
            for depth in range(STRATA)
        ]
        entries = [
            Point(count, {"entries": count}, DIGITS, count <= most)
            for count in doubling(STRATA, min(self._possible, longest))
        ]
        return [
            Sweep("depth", "depth in the book (%)", self._fitting(depths, longest)),
            Sweep("entries", "entries in the book", self._fitting(entries, longest)),
        ]

    @property
    def _possible(self) -> int:
        return self.names ** self.settings["name_tokens"]

    def _make(self, draw: Draw, row_length: int, settings: dict[str, Any]) -> TaskRows:
        loads, digits, name_tokens = numbers(settings["entries"]), settings["digits"], settings["name_tokens"]
        most = max(loads)
        sizes = [1, most, most, most * digits, STRATA, STRATA]
        words = np.split(draw.words(sum(sizes)), np.cumsum(sizes)[:-1], axis=1)
        chosen, choice, order, digit, within, shuffle = words
        load = np.take(loads, below(chosen[:, 0], len(loads)))
        code = distinct(choice, order, self._possible)
        parts = code[:, :, None] // self.names ** np.arange(name_tokens) % self.names
        number = below(digit, DIGITS).reshape(draw.count, most, digits)
        entries = np.concatenate([self.key_ids.start + parts, self.value_ids.start + number], axis=2)

        priority = shuffle.astype(np.int64)
        if settings["depth"] is not None:
            priority[:, settings["depth"]] = -1
        depth = np.argsort(priority, axis=1, kind="stable")
        # Entry e of K lies in fifth 5 e // K.
        low, high = (-(-load[:, None] * (depth + step) // STRATA) for step in (0, 1))
        asked = low + below(within, high - low)

        row = np.arange(draw.count)[:, None]
        tokens = np.zeros((draw.count, row_length), np.int32)
        width = name_tokens + digits
        written = np.repeat(np.arange(most) < load[:, None], width, axis=1)
        places, at = put(tokens, np.zeros(draw.count, np.int64), entries.reshape(draw.count, -1), written)
        source = places.reshape(draw.count, most, width)[row, asked, name_tokens:]
        again, end = put(tokens, at, entries[row, asked, :-1].reshape(draw.count, -1))
        scored = again.reshape(draw.count, STRATA, width - 1)[:, :, name_tokens - 1 :]
        in_row = np.where(written.reshape(draw.count, most, width), entries, -1)[:, :, name_tokens:]
        return task_rows(
            draw,
            tokens,
            end,
            scored.reshape(draw.count, -1),
            entries[row, asked, name_tokens:].reshape(draw.count, -1),
            source.reshape(draw.count, -1),
            pairs=load,
            values_in_row=in_row.reshape(draw.count, -1),
            depth=np.repeat(depth, digits, axis=1),
            asked=np.repeat(np.arange(STRATA), digits),
            answer_token=np.tile(np.arange(digits), STRATA),
        )
