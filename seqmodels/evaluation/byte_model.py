"""Interpolated byte models: the control beside every bits-per-byte figure of a text model.

Witten-Bell interpolation (Witten & Bell 1991; Chen & Goodman 1998), with h the last `order` bytes, N(h) how
often h was followed by any byte, T(h) by how many different ones:

    p(c | h) = (count(h c) + T(h) p(c | h without its oldest byte)) / (N(h) + T(h)),  below order 0: 1/256.

Contexts do not cross documents: a document's first bytes use the shorter contexts they have.
"""

import numpy as np

_MAX_ORDER = 3  # an (order + 1)-gram is one uint32


class ByteModel:
    """Counts of all byte n-grams up to order + 1 (order at most 3) of the training documents."""

    def __init__(self, documents: list[bytes], order: int):
        if not 0 <= order <= _MAX_ORDER:
            raise ValueError(f"order {order}: a byte model of order 0 to {_MAX_ORDER} is supported")
        self.order = order
        joined, position = _join(documents)
        self._grams, self._counts = [], []
        for n in range(order + 1):
            grams, counts = np.unique(_grams(joined, n)[position >= n], return_counts=True)
            self._grams.append(grams)
            self._counts.append(counts)

    def bits_per_byte(self, documents: list[bytes]) -> list[float]:
        """Mean -log2 p of the documents' bytes under the models of order 0, 1, ... up to this model's."""
        joined, position = _join(documents)
        probability = np.full(len(joined), 1 / 256)
        means = []
        for n in range(self.order + 1):
            seen = position >= n
            probability[seen] = self._interpolate(n, _grams(joined, n)[seen], probability[seen])
            means.append(float(-np.log2(probability).mean()))
        return means

    def _interpolate(self, n: int, grams: np.ndarray, lower: np.ndarray) -> np.ndarray:
        known, counts = self._grams[n], self._counts[n]
        if len(known) == 0:
            return lower
        contexts, first = np.unique(known >> 8, return_index=True)
        totals, kinds = np.add.reduceat(counts, first), np.diff(np.append(first, len(known)))
        count = _lookup(known, counts, grams)
        total, kind = _lookup(contexts, totals, grams >> 8), _lookup(contexts, kinds, grams >> 8)
        denominator = np.maximum(total + kind, 1)
        return np.where(total > 0, (count + kind * lower) / denominator, lower)


def _join(documents: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """All bytes end to end, and each one's position in its document."""
    joined = np.frombuffer(b"".join(documents), np.uint8)
    lengths = np.array([len(document) for document in documents], np.int64)
    return joined, np.arange(len(joined)) - np.repeat(np.cumsum(lengths) - lengths, lengths)


def _grams(joined: np.ndarray, n: int) -> np.ndarray:
    """uint32 at each byte: that byte lowest, the n before it above it, oldest highest."""
    wide = joined.astype(np.uint32)
    grams = wide.copy()
    for back in range(1, n + 1):
        grams[back:] |= wide[:-back] << np.uint32(8 * back)
    return grams


def _lookup(keys: np.ndarray, values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """values at the sorted keys equal to `wanted`, 0 where there is none."""
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, values[at], 0)
