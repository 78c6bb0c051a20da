"""What switches of recall at a distance change among its pairs: noise in their place, and older values."""

from typing import NamedTuple

import numpy as np

from seqmodels.data.random_bits import below

WORDS_PER_PAIR = 6
_NEVER = 1 << 32  # behind every uint32 word


class Switched(NamedTuple):
    """Of each of a row's K pairs: whether it is a pair, not noise, and whether its key had a value before.

    real, rebound: bool `[B, K]`. noise: `[B, K, 2]`, numbers below the size of the noise alphabet. stale:
    `[B, K]`, the number of the older value. order: `[B, K]`, the rebound pairs first, in the order in which
    they are written with their older values.
    """

    real: np.ndarray
    rebound: np.ndarray
    noise: np.ndarray
    stale: np.ndarray
    order: np.ndarray


def share(fraction: float, of: np.ndarray | int) -> np.ndarray:
    """The whole number nearest to a fraction of `of`; at least 1 unless the fraction is 0."""
    return np.maximum(np.floor(fraction * np.asarray(of) + 0.5), fraction > 0).astype(np.int64)


def noise_pairs(fraction: float, load: np.ndarray | int) -> np.ndarray:
    """How many of a row's pairs are noise: a share of them, and never all."""
    return np.minimum(share(fraction, load), np.asarray(load) - 1)


def switch(
    words: np.ndarray,
    load: np.ndarray,
    target: np.ndarray,
    value: np.ndarray,
    *,
    noisy: float,
    rebind: float,
    noise_tokens: int,
    values: int,
) -> Switched:
    """Draws what the switches ask for.

    Args:
        words: uint32 `[B, 6 K]`.
        load: `[B]`, how many of the K pairs each row has.
        target: `[B]`, the pair of the first query: never noise, and the first to be rebound.
        value: `[B, K]`, the number of each pair's value; the older one is another.
        noisy, rebind: the fractions of the pairs, and of the pairs that are left.
        noise_tokens, values: the sizes of the alphabets.
    """
    count, most = value.shape
    noise_word, rebind_word, stale_word, order_word, *token_words = np.split(
        words.astype(np.int64), 6, axis=1
    )
    rows, written = np.arange(count), np.arange(most) < load[:, None]
    other = written.copy()
    other[rows, target] = False
    real = written & ~_first(np.where(other, noise_word, _NEVER), noise_pairs(noisy, load))
    priority = np.where(real, rebind_word, _NEVER)
    priority[rows, target] = -1
    rebound = _first(priority, share(rebind, real.sum(axis=1)))
    stale = below(stale_word, max(values - 1, 1))
    return Switched(
        real,
        rebound,
        below(np.stack(token_words, axis=2), noise_tokens),
        stale + (stale >= value),
        np.argsort(np.where(rebound, order_word, _NEVER), axis=1, kind="stable"),
    )


def _first(priority: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Marks the `count` `[B]` lowest of each row `[B, K]`."""
    order = np.argsort(priority, axis=1, kind="stable")
    marked = np.zeros(priority.shape, bool)
    np.put_along_axis(marked, order, np.arange(priority.shape[1]) < count[:, None], axis=1)
    return marked
