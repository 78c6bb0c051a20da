"""Copy: say again what was said.

    row = [N items] [the copy token] [the first N - 1 items again]

The first item is the target at the copy token, and each further one at the item before it, as where a model
writes the copy itself. Items are drawn uniformly, with repetition; all distances are N.
(Jelassi, Brandfonbrener, Kakade, Malach, "Repeat after me: transformers are better than state space models at
copying", ICML 2024.)
"""

from typing import Any

import gin
import numpy as np

from seqmodels.data.random_bits import below
from seqmodels.data.tasks.layout import put, task_rows
from seqmodels.data.tasks.task import Draw, Point, Sweep, Task, TaskRows, check_least, doubling, numbers


@gin.register
class Copy(Task):
    """Rows of copy. Token ids: the copy token, then items. The defaults fill rows of at most 64 tokens."""

    def __init__(self, items: int | tuple[int, ...] = (8, 16, 24, 32), values: int = 32):
        """
        Args:
            items: N; of several numbers each row draws one.
            values: the size of their alphabet.
        """
        self.values = values
        self.value_ids = range(1, 1 + values)
        self.vocab_size = 1 + values
        self.settings = {"items": numbers(items), "values": values}
        check_least("Copy", 2, values=values)  # one alone has no bit to recall
        self.row_tokens()

    @property
    def copy_id(self) -> int:
        return self.first_id

    def row_tokens(self, **changes: Any) -> int:
        items = numbers((self.settings | changes)["items"])
        check_least("Copy", items=items)
        return 2 * max(items)

    def sweeps(self, longest: int) -> list[Sweep]:
        """By the number of items, which is also the distance."""
        most = max(self.settings["items"])
        points = [
            Point(items, {"items": items}, items, items <= most)
            for items in doubling(1, max(1, longest // 2))
        ]
        return [Sweep("items", "items to copy (tokens)", self._fitting(points, longest), first_query=False)]

    def _make(self, draw: Draw, row_length: int, settings: dict[str, Any]) -> TaskRows:
        loads = numbers(settings["items"])
        most = max(loads)
        words = draw.words(1 + most)
        load = np.take(loads, below(words[:, 0], len(loads)))
        items = self.value_ids.start + below(words[:, 1:], self.values)
        written = np.arange(most) < load[:, None]
        tokens = np.zeros((draw.count, row_length), np.int32)
        source, at = put(tokens, np.zeros(draw.count, np.int64), items, written)
        asked = np.concatenate([np.full((draw.count, 1), self.copy_id), items[:, :-1]], axis=1)
        scored, end = put(tokens, at, asked, written)
        return task_rows(
            draw,
            tokens,
            end,
            scored,
            items,
            source,
            kept=written,
            pairs=load,
            values_in_row=np.where(written, items, -1),
        )
