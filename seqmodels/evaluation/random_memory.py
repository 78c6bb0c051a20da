"""What a key-value memory with random keys recalls, by simulation: the reference lines of recalled bits.

Each of K random unit keys k_t in d_k dimensions is written with one of V Gaussian vectors v_t in d_v,

    additive:      S_t = S_{t-1} + k_t v_t^T
    online delta:  S_t = S_{t-1} + k_t (v_t - S_{t-1}^T k_t)^T     (the rule of Widrow and Hoff, 1960)

and read at the end as S_K^T k_j, which is decoded by its inner products with the V vectors. Nothing is
trained. A model whose keys are orthogonal can do better, one that spends its state on other things worse.

Since S_K^T k = sum_t (k_t . k) u_t with the vectors u_t that were added, only the inner products of the keys
are needed, and no state: u = v for the additive rule, and (I + L) u = v for the delta rule, where L is the
part of those inner products below the diagonal.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

RULES = ("additive", "delta")
_BLOCK_ELEMENTS = 2_000_000
_GOLDEN = (5**0.5 - 1) / 2


class Reading(NamedTuple):
    """Every pair of simulated rows, read once: column j is the j-th pair written.

    right: whether the largest inner product is that of the pair's value, [rows, pairs]. bits: what the
    reading says of the value, log2 V - NLL, [rows, pairs].
    """

    right: np.ndarray
    bits: np.ndarray


def critical_load(key_width: int, value_width: int, values: int) -> float:
    """K* = d_k d_v / (2 ln V), where the largest of V noises reaches the signal of the additive memory.

    The signal is |v|^2 = d_v; each of K pairs adds noise of variance d_v / d_k to every inner product, and
    the largest of V such sums is about sqrt(2 ln V K d_v / d_k).
    """
    return key_width * value_width / (2 * float(np.log(values)))


def simulate(
    pairs: int,
    *,
    values: int,
    key_width: int,
    value_width: int,
    rows: int,
    seed: int = 0,
) -> dict[str, Reading]:
    """By rule: rows of `pairs` pairs, their values drawn with repetition and decoded among all of them.

    The bits are those of a softmax over the inner products at the inverse temperature that gives the most,
    one for all rows, as a trained output layer would find it.
    """
    generator = np.random.Generator(np.random.Philox(seed))
    block = max(1, _BLOCK_ELEMENTS // (values * value_width + pairs * (key_width + values + pairs)))
    parts: dict[str, list[np.ndarray]] = {rule: [] for rule in RULES}
    answers = []
    for first in range(0, rows, block):
        count = min(block, rows - first)
        keys = generator.standard_normal((count, pairs, key_width))
        keys /= np.linalg.norm(keys, axis=-1, keepdims=True)
        vectors = generator.standard_normal((count, values, value_width))
        answer = generator.integers(0, values, (count, pairs))
        written = np.take_along_axis(vectors, answer[..., None], axis=1)
        among_values = written @ vectors.swapaxes(1, 2)
        among_keys = keys @ keys.swapaxes(1, 2)
        below = np.tril(among_keys, -1) + np.eye(pairs)
        parts["additive"].append(among_keys @ among_values)
        parts["delta"].append(among_keys @ np.linalg.solve(below, among_values))
        answers.append(answer)
    return {rule: _read(np.concatenate(part), np.concatenate(answers)) for rule, part in parts.items()}


def _read(scores: np.ndarray, answer: np.ndarray) -> Reading:
    """scores: inner products [rows, pairs, values]."""
    highest = scores.max(axis=-1)
    own = np.take_along_axis(scores, answer[..., None], axis=-1)[..., 0]
    behind = highest - own
    right = scores.argmax(axis=-1) == answer
    below_highest = (scores - highest[..., None]).astype(np.float32)

    def nats(log_inverse: float) -> np.ndarray:
        inverse = np.exp(log_inverse)
        return np.log(np.exp(np.float32(inverse) * below_highest).sum(axis=-1)) + inverse * behind

    unit = -np.log(max(float(scores.std()), 1e-12))
    best = _minimum(lambda log_inverse: float(nats(log_inverse).mean()), unit - 7.0, unit + 7.0)
    return Reading(right, np.log2(scores.shape[-1]) - nats(best) / np.log(2.0))


def _minimum(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a function with one minimum has it, by golden sections; the mean NLL has one, being convex in the
    inverse temperature, and is flat around it.
    """
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    while high - low > 0.05:
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(right)
    return (low + high) / 2
