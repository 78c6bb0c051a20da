"""N-gram lookup: what came after these n tokens, which stood here exactly once?

    row = [L random letters] [n_q queries: the mark, and n letters side by side that occur once among the L]

The letter that follows them there is the target at the query's last letter. No other query of the row holds
the same letters, and the mark keeps those of a query from joining with what stands before it: the n-gram
occurs exactly once before it is asked for.
(Jelassi, Brandfonbrener, Kakade, Malach, "Repeat after me: transformers are better than state space models at
copying", ICML 2024.)
"""

from typing import Any

import gin
import numpy as np

from seqmodels.data.random_bits import below
from seqmodels.data.tasks.layout import put, task_rows
from seqmodels.data.tasks.task import Draw, Point, Sweep, Task, TaskRows, check_least, doubling
from seqmodels.errors import InputError


@gin.register
class NgramLookup(Task):
    """Rows of n-gram lookup. Token ids: the mark, then letters. The defaults fill rows of 64 tokens."""

    def __init__(self, length: int = 40, n: int = 2, queries_per_row: int = 8, letters: int = 26):
        """
        Args:
            length: L.
            n: letters of a query.
            queries_per_row: at most half of the n-grams that have a letter behind them.
            letters: the size of the alphabet, with at least four times as many n-grams as the row has.
        """
        self.letters = letters
        self.value_ids = self.key_ids = range(1, 1 + letters)
        self.vocab_size = 1 + letters
        self.settings = {"length": length, "n": n, "queries_per_row": queries_per_row, "letters": letters}
        check_least("NgramLookup", 2, letters=letters)
        self.row_tokens()

    @property
    def mark_id(self) -> int:
        return self.first_id

    def row_tokens(self, **changes: Any) -> int:
        names = ("length", "n", "queries_per_row")
        length, n, queries = ((self.settings | changes)[name] for name in names)
        check_least("NgramLookup", length=length, n=n, queries_per_row=queries)
        if 2 * queries > length - n:
            raise InputError(
                f"NgramLookup.queries_per_row = {queries} should be at most half of the {max(0, length - n)} "
                f"n-grams of n = {n} with a letter behind them that length = {length} holds."
            )
        if self.letters**n < 4 * length:
            raise InputError(
                f"NgramLookup.letters = {self.letters} with n = {n} make {self.letters**n} n-grams, and "
                f"length = {length} needs {4 * length}, so that most of a row's occur once."
            )
        if self.letters**n >= 1 << 62:
            raise InputError(f"NgramLookup.n = {n} with letters = {self.letters} is too long to be counted.")
        return length + queries * (n + 1)

    def sweeps(self, longest: int) -> list[Sweep]:
        """By the number of letters: distances are uniform up to about that."""
        n, queries = self.settings["n"], self.settings["queries_per_row"]
        lengths = doubling(2 * queries + n, min(longest, self.letters**n // 4))
        points = [Point(tokens, {"length": tokens}, tokens, True) for tokens in lengths]
        return [Sweep("length", "letters before the queries (tokens)", self._fitting(points, longest))]

    def _make(self, draw: Draw, row_length: int, settings: dict[str, Any]) -> TaskRows:
        length, n, queries = settings["length"], settings["n"], settings["queries_per_row"]
        letters, start = self._draw(draw, length, n, queries)
        tokens, row = np.zeros((draw.count, row_length), np.int32), np.arange(draw.count)[:, None]
        tokens[:, :length] = letters
        asked = letters[row[:, :, None], start[:, :, None] + np.arange(n)]
        again = np.concatenate([np.full((draw.count, queries, 1), self.mark_id), asked], axis=2)
        places, end = put(tokens, np.full(draw.count, length), again.reshape(draw.count, -1))
        return task_rows(
            draw,
            tokens,
            end,
            places[:, n :: n + 1],
            letters[row, start + n],
            start + n,
            pairs=length,
            values_in_row=letters,
        )

    def _draw(self, draw: Draw, length: int, n: int, queries: int) -> tuple[np.ndarray, np.ndarray]:
        """Letters `[B, L]`, and where the n-grams of the queries start `[B, n_q]`.

        A row in which too few n-grams occur once is drawn again from its next stream.
        """
        letters = np.empty((draw.count, length), np.int64)
        start = np.empty((draw.count, queries), np.int64)
        wanting, stream = np.ones(draw.count, bool), 0
        while wanting.any():
            token, choice = np.split(draw.words(2 * length - n, stream), [length], axis=1)
            drawn = below(token[wanting], self.letters)
            once = _once(drawn, n)[:, :-1]  # the last one has no letter behind it
            priority = np.where(once, choice[wanting].astype(np.int64), 1 << 32)
            order = np.argsort(priority, axis=1, kind="stable")
            letters[wanting], start[wanting] = self.value_ids.start + drawn, order[:, :queries]
            wanting[wanting] = once.sum(axis=1) < queries
            stream += 1
        return letters, start


def _once(letters: np.ndarray, n: int) -> np.ndarray:
    """Whether each n-gram of a row `[B, L]` occurs in it once: bool `[B, L - n + 1]`."""
    base = int(letters.max()) + 1
    code = np.zeros((len(letters), letters.shape[1] - n + 1), np.int64)
    for place in range(n):
        code = code * base + letters[:, place : place + code.shape[1]]
    order = np.argsort(code, axis=1, kind="stable")
    ranked = np.take_along_axis(code, order, axis=1)
    same = np.zeros((len(code), code.shape[1] + 1), bool)
    same[:, 1:-1] = ranked[:, 1:] == ranked[:, :-1]
    once = np.empty(code.shape, bool)
    np.put_along_axis(once, order, ~(same[:, 1:] | same[:, :-1]), axis=1)
    return once
