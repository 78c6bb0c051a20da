"""Intervals and summary figures: what stands beside every number that the evaluation prints.

All intervals are at 95 %. Resampling draws whole documents or rows, never tokens or queries, since those
inside one document or row are not independent. Every draw comes from a fixed seed, so a repeated evaluation
prints the same interval.
"""

from typing import NamedTuple

import numpy as np

RESAMPLES = 1000
_BLOCK_ELEMENTS = 4_000_000
_Z95 = 1.959963984540054


class Estimate(NamedTuple):
    """A figure with the bounds of its 95 % interval."""

    value: float
    low: float
    high: float

    def scaled(self, factor: float) -> "Estimate":
        """In another unit, `factor` (> 0) times as large a number."""
        return Estimate(*(float(number * factor) for number in self))


def wilson(successes: int, trials: int) -> Estimate:
    """A proportion with Wilson's score interval (Wilson 1927), which has a width at 0 and at `trials` too."""
    if trials == 0:
        return Estimate(float("nan"), 0.0, 1.0)
    proportion, square = successes / trials, _Z95**2
    centre = (proportion + square / (2 * trials)) / (1 + square / trials)
    spread = np.sqrt(proportion * (1 - proportion) / trials + square / (4 * trials**2))
    half = _Z95 / (1 + square / trials) * spread
    return Estimate(proportion, float(max(0.0, centre - half)), float(min(1.0, centre + half)))


def resample_sums(values: np.ndarray, *, seed: int = 0, resamples: int = RESAMPLES) -> np.ndarray:
    """[resamples, ...]: sums of `values` [units, ...] over as many units drawn with replacement.

    One draw serves all trailing axes, so that figures computed from them stay paired.
    """
    values = np.asarray(values, np.float64)
    units = values.shape[0]
    flat = values.reshape(units, -1)
    sums = np.empty((resamples, flat.shape[1]))
    generator = np.random.Generator(np.random.Philox(seed))
    block = max(1, _BLOCK_ELEMENTS // max(units, 1))
    for first in range(0, resamples, block):
        count = min(block, resamples - first)
        drawn = generator.integers(0, units, size=(count, units)) + units * np.arange(count)[:, None]
        times = np.bincount(drawn.ravel(), minlength=count * units).reshape(count, units)
        sums[first : first + count] = times @ flat
    return sums.reshape(resamples, *values.shape[1:])


def percentile_interval(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The 2.5 and 97.5 percentiles over axis 0; samples that are NaN (an empty resample) are left out."""
    low, high = np.nanpercentile(samples, [2.5, 97.5], axis=0)
    return low, high


def ratio(numerators: np.ndarray, denominators: np.ndarray, *, seed: int = 0) -> Estimate:
    """sum(numerators) / sum(denominators) over units [units] with its bootstrap interval over units."""
    pair = np.stack([np.asarray(numerators, np.float64), np.asarray(denominators, np.float64)], axis=-1)
    if pair.shape[0] == 0 or pair[:, 1].sum() == 0:
        return Estimate(float("nan"), float("nan"), float("nan"))
    sums = resample_sums(pair, seed=seed)
    kept = sums[sums[:, 1] > 0]
    low, high = percentile_interval(kept[:, 0] / kept[:, 1])
    total = pair.sum(axis=0)
    return Estimate(float(total[0] / total[1]), float(low), float(high))


def area_over_log2(distances: np.ndarray, accuracies: np.ndarray) -> np.ndarray:
    """The mean of a curve over log2 distance, by trapezoids: 1 where it is 1 throughout, whatever its range.

    distances: [points], positive and increasing; accuracies: [..., points]. A single point is its own mean.
    """
    accuracies = np.asarray(accuracies, np.float64)
    if len(distances) == 1:
        return accuracies[..., 0]
    steps = np.diff(np.log2(np.asarray(distances, np.float64)))
    return ((accuracies[..., 1:] + accuracies[..., :-1]) / 2 * steps).sum(axis=-1) / steps.sum()


def horizon50(distances: np.ndarray, accuracies: np.ndarray) -> float:
    """The distance at which a curve first falls through 1/2, interpolated in log2 distance.

    Infinity where it never does within the distances measured, 0 where it starts below.
    """
    below = np.flatnonzero(np.asarray(accuracies) < 0.5)
    if len(below) == 0:
        return float("inf")
    first = int(below[0])
    if first == 0:
        return 0.0
    x0, x1 = np.log2(distances[first - 1]), np.log2(distances[first])
    y0, y1 = accuracies[first - 1], accuracies[first]
    return float(2 ** (x0 + (y0 - 0.5) / (y0 - y1) * (x1 - x0)))
