"""Selective copy: the items in order, whatever stood between them.

    row = [N items among fillers, L tokens in all] [N copy tokens]

Item i is the target at copy token i and is never fed back. The items stand at uniform places of the body,
which may be the first, the last, next to the copy tokens, or side by side.
(Gu, Dao, "Mamba: linear-time sequence modeling with selective state spaces", 2023.)
"""

from typing import Any

import gin
import numpy as np

from seqmodels.data.random_bits import below, distinct
from seqmodels.data.tasks.layout import task_rows
from seqmodels.data.tasks.task import Draw, Point, Sweep, Task, TaskRows, check_least, doubling
from seqmodels.errors import InputError


@gin.register
class SelectiveCopy(Task):
    """Rows of selective copy. Token ids: the copy token, then fillers, then items."""

    def __init__(self, length: int = 48, items: int = 16, values: int = 32, filler_tokens: int = 16):
        """
        Args:
            length: L, the tokens of the body.
            items: N, at most L.
            values, filler_tokens: the sizes of their alphabets.
        """
        self.values, self.filler_tokens = values, filler_tokens
        self.filler_ids = range(1, 1 + filler_tokens)
        self.value_ids = range(1 + filler_tokens, 1 + filler_tokens + values)
        self.vocab_size = self.value_ids.stop
        self.settings = {
            "length": length,
            "items": items,
            "values": values,
            "filler_tokens": filler_tokens,
        }
        check_least("SelectiveCopy", filler_tokens=filler_tokens)
        check_least("SelectiveCopy", 2, values=values)  # one alone has no bit to recall
        self.row_tokens()

    @property
    def copy_id(self) -> int:
        return self.first_id

    def row_tokens(self, **changes: Any) -> int:
        length, items = ((self.settings | changes)[name] for name in ("length", "items"))
        check_least("SelectiveCopy", items=items)
        if items > length:
            raise InputError(f"SelectiveCopy.items = {items} should be at most length = {length}.")
        return length + items

    def sweeps(self, longest: int) -> list[Sweep]:
        """By the length of the body, at the number of items of training."""
        items = self.settings["items"]
        lengths = doubling(items, max(items, longest - items))
        points = [Point(tokens, {"length": tokens}, items, True) for tokens in lengths]
        return [Sweep("length", "body (tokens)", self._fitting(points, longest), first_query=False)]

    def _make(self, draw: Draw, row_length: int, settings: dict[str, Any]) -> TaskRows:
        length, items = settings["length"], settings["items"]
        place, value = np.split(draw.words(2 * items), 2, axis=1)
        values = self.value_ids.start + below(value, self.values)
        source = np.sort(distinct(place, place, length), axis=1)
        tokens = np.zeros((draw.count, row_length), np.int32)
        filler = below(draw.words(length, stream=1), self.filler_tokens)
        tokens[:, :length] = self.filler_ids.start + filler
        tokens[np.arange(draw.count)[:, None], source] = values
        scored = np.broadcast_to(length + np.arange(items), source.shape)
        tokens[:, length : length + items] = self.copy_id
        return task_rows(
            draw, tokens, length + items, scored, values, source, pairs=items, values_in_row=values
        )
