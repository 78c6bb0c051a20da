"""Group words: the running product of a word in a finite group, asked for at every position.

    row = [L elements g_1, g_2, ..., g_L],  target at position t: g_1 g_2 ... g_t

State tracking, the axis orthogonal to recall: nothing is looked up, and every token matters for every later
answer. Z2 is parity; S3 is the smallest group in which order matters; A5 is the smallest that no layer of
commuting transitions can follow, and S5 is the permutations of five things. Elements are drawn uniformly, so
every product is uniform, whatever came before the token itself. The distance of a query is the number of
tokens that its answer depends on, t. (Merrill, Petty, Sabharwal, "The illusion of state in state-space
models", ICML 2024.)
"""

from typing import Any

import gin
import numpy as np

from seqmodels.data.random_bits import below
from seqmodels.data.tasks.groups import group_of
from seqmodels.data.tasks.layout import task_rows
from seqmodels.data.tasks.task import Draw, Point, Sweep, Task, TaskRows, check_least, doubling, numbers


@gin.register
class GroupWords(Task):
    """Rows of words in a group. Token ids: the elements as they are written, then as answers."""

    def __init__(
        self, group: str = "S3", length: int | tuple[int, ...] = (8, 16, 32), last_only: bool = False
    ):
        """
        Args:
            group: Z2, S3, A5, S5, or another Z<n>, S<n> or A<n>.
            length: L; of several numbers each row draws one.
            last_only: whether only the product of the whole word is asked for.
        """
        self._product = group_of(group).product
        self.order = len(self._product)
        self.key_ids, self.value_ids = range(self.order), range(self.order, 2 * self.order)
        self.vocab_size = 2 * self.order
        self.settings = {"group": group, "length": numbers(length), "last_only": last_only}
        self.row_tokens()

    @property
    def ids(self) -> tuple:
        return (*super().ids, self.settings["group"])

    def row_tokens(self, **changes: Any) -> int:
        length = numbers((self.settings | changes)["length"])
        check_least(type(self).__name__, length=length)
        return max(length)

    def sweeps(self, longest: int) -> list[Sweep]:
        """By the length of the word, at its last position."""
        points = [
            Point(length, {"length": length, "last_only": True}, self.order, True)
            for length in doubling(1, longest)
        ]
        return [Sweep("length", "length of the word (tokens)", self._fitting(points, longest))]

    def _make(self, draw: Draw, row_length: int, settings: dict[str, Any]) -> TaskRows:
        lengths = numbers(settings["length"])
        most = max(lengths)
        words = draw.words(1 + most)
        length = np.take(lengths, below(words[:, 0], len(lengths)))
        word = below(words[:, 1:], self.order)
        running = word.copy()
        for t in range(1, most):
            running[:, t] = self._product[running[:, t - 1], word[:, t]]
        tokens = np.zeros((draw.count, row_length), np.int32)
        written = np.arange(most) < length[:, None]
        tokens[:, :most] = np.where(written, self.key_ids.start + word, 0)
        scored, answer, kept = np.broadcast_to(np.arange(most), written.shape), running, written
        if settings["last_only"]:
            scored = length[:, None] - 1
            answer, kept = np.take_along_axis(running, scored, axis=1), None
        everything = np.broadcast_to(np.array(self.value_ids), (draw.count, self.order))
        return task_rows(
            draw,
            tokens,
            length,
            scored,
            self.value_ids.start + answer,
            np.array(-1),
            kept=kept,
            pairs=self.order,
            values_in_row=everything,
        )
