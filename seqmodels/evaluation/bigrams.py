"""Pairs of neighbouring tokens: how often training had them, and where a context has one again.

A pair is one number, its code: `before * vocab_size + token`. Pairs lie within a document.
"""

from typing import NamedTuple

import numpy as np

_CHUNK_TOKENS = 1 << 22


class TrainingCounts(NamedTuple):
    """pairs: of each code asked for. tokens: of each token id, [vocab_size]. total: tokens in all."""

    pairs: np.ndarray
    tokens: np.ndarray
    total: int


def training_counts(store, codes: np.ndarray, vocab_size: int) -> TrainingCounts:
    """Exact counts in a token store, read a chunk at a time. codes: int64, rising, each once."""
    pairs, tokens = np.zeros(len(codes), np.int64), np.zeros(vocab_size, np.int64)
    begins = np.asarray(store.offsets[:-1], np.int64)
    total = len(store.tokens)
    for first in range(0, total, _CHUNK_TOKENS):
        last = min(first + _CHUNK_TOKENS, total)
        # One token earlier, so that the pair across the border is counted too.
        chunk = np.asarray(store.tokens[max(first - 1, 0) : last], np.int64)
        tokens += np.bincount(chunk[min(first, 1) :], minlength=vocab_size)
        inside = np.ones(len(chunk), bool)
        low, high = np.searchsorted(begins, [max(first - 1, 0), last])
        inside[begins[low:high] - max(first - 1, 0)] = False
        found = (chunk[:-1] * vocab_size + chunk[1:])[inside[1:]]
        if len(codes):
            at = np.minimum(np.searchsorted(codes, found), len(codes) - 1)
            pairs += np.bincount(at[codes[at] == found], minlength=len(codes))
    return TrainingCounts(pairs, tokens, total)


def last_occurrence(codes: np.ndarray) -> np.ndarray:
    """Where in its row each code stood last before, -1 where it did not; [rows, T] both."""
    order = np.argsort(codes, axis=1, kind="stable")
    ordered = np.take_along_axis(codes, order, axis=1)
    before = np.full(codes.shape, -1)
    before[:, 1:] = np.where(ordered[:, 1:] == ordered[:, :-1], order[:, :-1], -1)
    last = np.empty_like(before)
    np.put_along_axis(last, order, before, axis=1)
    return last
