"""Multi-query associative recall, with queries that come early more often than late.

    row = [K pairs k, v] [slots of two tokens: a queried key and a filler, or two fillers]

Keys are distinct and come from the lower half of the vocabulary, 0 left out; values are distinct and come
from the upper half. Each key is asked once. The slots of the K queries are drawn without replacement with a
weight proportional to i^(power - 1), i from 1; key j goes to the slot that is drawn j-th. The value is the
target at its key's second place, and is never fed back: only those K positions have weight. With slot and
pair j counted from 0 the distance, query less value, is

    d = 2 K + 2 slot - 2 j - 1.

Fillers are the blank 0, or come from an alphabet behind the vocabulary: never a key or a value.
(Arora, Eyuboglu, Timalsina, Johnson, Poli, Zou, Rudra, Re, "Zoology: measuring and improving recall in
efficient language models", ICLR 2024.)
"""

import functools
from decimal import Context, Decimal, localcontext
from typing import Any

import gin
import numpy as np

from seqmodels.data.random_bits import below, distinct
from seqmodels.data.tasks.layout import task_rows
from seqmodels.data.tasks.task import Draw, Point, Sweep, Task, TaskRows, check_least, doubling
from seqmodels.errors import InputError

_SCALE = 1 << 31


@gin.register
class Mqar(Task):
    """Rows of multi-query associative recall. Token ids: the vocabulary, then fillers if they have their own.

    The figure of the paper has vocabulary 8192 and, in training, 4 pairs in 64 tokens (100,000 rows), 8 in
    128, and 16, 32 and 64 in 256 (20,000 each): five such tasks in a `Mixture` with weights 5, 1, 1, 1, 1.
    """

    def __init__(
        self,
        vocabulary: int = 512,
        length: int = 64,
        pairs: int = 8,
        power: float = 0.01,
        filler_tokens: int = 0,
    ):
        """
        Args:
            vocabulary: V, more than the length.
            length: L, even.
            pairs: K, at most L / 4.
            power: 1 makes all slots equally likely.
            filler_tokens: the size of their alphabet; 0: the blank.
        """
        self.vocabulary, self.filler_tokens = vocabulary, filler_tokens
        self.key_ids, self.value_ids = range(1, vocabulary // 2), range(vocabulary // 2, vocabulary)
        self.filler_ids = range(vocabulary, vocabulary + filler_tokens) if filler_tokens else range(1)
        self.vocab_size = vocabulary + filler_tokens
        self.settings = {
            "vocabulary": vocabulary,
            "length": length,
            "pairs": pairs,
            "power": power,
            "filler_tokens": filler_tokens,
        }
        check_least("Mqar", 0, filler_tokens=filler_tokens)
        if not 0 <= power <= 10:
            raise InputError(f"Mqar.power = {power} should lie between 0 and 10; 1 makes all slots alike.")
        self.row_tokens()

    def row_tokens(self, **changes: Any) -> int:
        settings = self.settings | changes
        length, pairs = settings["length"], settings["pairs"]
        check_least("Mqar", length=length, pairs=pairs)
        if length % 2:
            raise InputError(f"Mqar.length = {length} should be even: pairs and slots take two tokens.")
        if self.vocabulary <= length:
            raise InputError(f"Mqar.vocabulary = {self.vocabulary} should be more than length = {length}.")
        if 4 * pairs > length:
            raise InputError(
                f"Mqar.pairs = {pairs} should be at most a quarter of length = {length}: each pair needs a "
                "slot of two tokens besides its own two."
            )
        return length

    def sweeps(self, longest: int) -> list[Sweep]:
        """By load: K pairs in rows of the training length. By length: training's pairs in longer rows."""
        length, pairs = self.settings["length"], self.settings["pairs"]
        loads = [Point(k, {"pairs": k}, k, k == pairs) for k in doubling(1, length // 4)]
        longer = doubling(length, min(longest, self.vocabulary - 1))
        lengths = [Point(tokens, {"length": tokens}, pairs, True) for tokens in longer]
        return [
            Sweep("load", "pairs in the row", self._fitting(loads, longest), first_query=False),
            Sweep("length", "row length (tokens)", self._fitting(lengths, longest), first_query=False),
        ]

    def _make(self, draw: Draw, row_length: int, settings: dict[str, Any]) -> TaskRows:
        length, pairs = settings["length"], settings["pairs"]
        words = draw.words(5 * pairs)
        key, key_order, value, value_order, slot = np.split(words, 5, axis=1)
        keys = self.key_ids.start + distinct(key, key_order, len(self.key_ids))
        values = self.value_ids.start + distinct(value, value_order, len(self.value_ids))
        slots = _weighted(slot, _weights(length // 2 - pairs, repr(settings["power"])))

        tokens, row = np.zeros((draw.count, row_length), np.int32), np.arange(draw.count)[:, None]
        tokens[:, 0 : 2 * pairs : 2], tokens[:, 1 : 2 * pairs : 2] = keys, values
        tokens[:, 2 * pairs : length] = self.filler_ids.start
        if self.filler_tokens:
            filler = below(draw.words(length - 2 * pairs, stream=1), self.filler_tokens)
            tokens[:, 2 * pairs : length] += filler.astype(np.int32)
        order = np.argsort(slots, axis=1, kind="stable")
        scored = 2 * pairs + 2 * slots[row, order]
        tokens[row, scored] = keys[row, order]
        return task_rows(
            draw,
            tokens,
            length,
            scored,
            values[row, order],
            2 * order + 1,
            pairs=pairs,
            values_in_row=values,
            pair=order,
        )


@functools.lru_cache(maxsize=64)
def _weights(slots: int, power: str) -> np.ndarray:
    """`[slots]` int64 of sum at most 2**31, proportional to i^(power - 1), and at least 1.

    In decimal arithmetic, which rounds alike everywhere; powers of binary floats do not.
    """
    with localcontext(Context(prec=30)):
        weights = [Decimal(i) ** (Decimal(power) - 1) for i in range(1, slots + 1)]
        scale = (_SCALE - slots) / sum(weights)
        return np.array([int(weight * scale) + 1 for weight in weights], np.int64)


def _weighted(words: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """One number below `len(weights)` for each word of a row `[B, K]`, none twice, drawn in that order."""
    left = np.broadcast_to(weights, (len(words), len(weights))).copy()
    chosen, row = np.empty(words.shape, np.int64), np.arange(len(words))
    for draw in range(words.shape[1]):
        ends = np.cumsum(left, axis=1)
        chosen[:, draw] = (ends <= below(words[:, draw], ends[:, -1])[:, None]).sum(axis=1)
        left[row, chosen[:, draw]] = 0
    return chosen
