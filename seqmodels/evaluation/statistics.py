"""Intervals and summary figures: what stands beside every number that the evaluation prints.

All intervals are at 95 %. Resampling draws whole documents or rows, never tokens or queries, since those
inside one document or row are not independent. Every draw comes from a fixed seed, so a repeated evaluation
prints the same interval.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

RESAMPLES = 1000
SOLVED = 0.95
UNKNOWN = "interval not known"
_BLOCK_ELEMENTS = 4_000_000
_Z95 = 1.959963984540054


class Estimate(NamedTuple):
    """A figure with the bounds of its 95 % interval; they are NaN where that is not known."""

    value: float
    low: float
    high: float

    def scaled(self, factor: float) -> "Estimate":
        """In another unit, `factor` (> 0) times as large a number."""
        return Estimate(*(float(number * factor) for number in self))

    def shown(self, digits: int) -> tuple[str, str]:
        """The figure, and "LOW to HIGH" or that they are not known, with so many digits behind the point."""
        value, low, high = (f"{number:.{digits}f}" for number in self)
        known = np.isfinite(self.low) and np.isfinite(self.high)
        return value, f"{low} to {high}" if known else UNKNOWN


def wilson(successes: int, trials: int) -> Estimate:
    """A proportion with Wilson's score interval (Wilson 1927), which has a width at 0 and at `trials` too."""
    if trials == 0:
        return Estimate(float("nan"), 0.0, 1.0)
    proportion, square = successes / trials, _Z95**2
    centre = (proportion + square / (2 * trials)) / (1 + square / trials)
    spread = np.sqrt(proportion * (1 - proportion) / trials + square / (4 * trials**2))
    half = _Z95 / (1 + square / trials) * spread
    # At the ends centre and half are 0 or 1 together, but not when rounded.
    low = 0.0 if successes == 0 else float(centre - half)
    high = 1.0 if successes == trials else float(centre + half)
    return Estimate(proportion, low, high)


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


def resample_shares(
    right: np.ndarray, asked: np.ndarray, *, seed: int = 0, resamples: int = RESAMPLES
) -> np.ndarray:
    """[resamples, points]: sum(right) / sum(asked) of [units, points], the units weighed at random.

    The Bayesian bootstrap (Rubin 1981) of the units and of two more that count half: one that is all right
    and one that is all wrong. With one trial a unit that is a draw from Beta(right + 1/2, wrong + 1/2),
    which gives Jeffreys' interval (Brown, Cai, DasGupta 2001): shares of 0 and 1 have a width, which the
    ordinary bootstrap denies them. One draw of weights serves all points, and the two units stand in each of
    them, so that points stay paired. A point without trials is NaN.
    """
    right, asked = np.asarray(right, np.float64), np.asarray(asked, np.float64)
    units = len(right)
    shares = np.empty((resamples, right.shape[1]))
    generator = np.random.Generator(np.random.Philox(seed))
    block = max(1, _BLOCK_ELEMENTS // max(units, 1))
    with np.errstate(invalid="ignore"):
        for first in range(0, resamples, block):
            count = min(block, resamples - first)
            weights = generator.standard_exponential((count, units))
            half_right, half_wrong = generator.standard_gamma(0.5, (2, count, 1))
            trials = asked.mean(axis=0)
            denominators = weights @ asked + (half_right + half_wrong) * trials
            shares[first : first + count] = (weights @ right + half_right * trials) / denominators
    return shares


def share(right: np.ndarray, asked: np.ndarray) -> Estimate:
    """sum(right) / sum(asked) over units [units] with the interval of `resample_shares`."""
    samples = resample_shares(right[:, None], asked[:, None])[:, 0]
    return around(right.sum() / asked.sum(), samples)


def around(value: float, samples: np.ndarray) -> Estimate:
    """A figure with the percentile interval of its samples, widened to hold the figure itself.

    Samples of a share never reach 0 or 1, which the interval of a share of 0 or 1 should. Infinite samples
    are taken as they are.
    """
    ordered = np.sort(samples)
    low, high = ordered[int(0.025 * len(ordered))], ordered[int(0.975 * len(ordered))]
    return Estimate(float(value), float(np.fmin(value, low)), float(np.fmax(value, high)))


def percentile_interval(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The 2.5 and 97.5 percentiles over axis 0; samples that are NaN (an empty resample) are left out."""
    low, high = np.nanpercentile(samples, [2.5, 97.5], axis=0)
    return low, high


def ratio(numerators: np.ndarray, denominators: np.ndarray, *, seed: int = 0) -> Estimate:
    """sum(numerators) / sum(denominators) over units [units] with its bootstrap interval over units.

    Of one unit that counts the interval is not known: whatever is drawn is that unit again.
    """
    pair = np.stack([np.asarray(numerators, np.float64), np.asarray(denominators, np.float64)], axis=-1)
    if pair.shape[0] == 0 or pair[:, 1].sum() == 0:
        return Estimate(float("nan"), float("nan"), float("nan"))
    value = float(pair[:, 0].sum() / pair[:, 1].sum())
    if np.count_nonzero(pair[:, 1]) == 1:
        return Estimate(value, float("nan"), float("nan"))
    sums = resample_sums(pair, seed=seed)
    kept = sums[sums[:, 1] > 0]
    low, high = percentile_interval(kept[:, 0] / kept[:, 1])
    return Estimate(value, float(low), float(high))


def paired_difference(
    one: np.ndarray, other: np.ndarray, weights: np.ndarray, *, bound: float | None = None, seed: int = 0
) -> Estimate:
    """How much larger sum(one) / sum(weights) is than sum(other) / sum(weights), of the same units [units].

    Two models on the same rows: both are summed over the same resampled rows, so that what makes a row hard
    for both cancels. bound: the largest difference that a trial can have, 1 of accuracies; with it half a
    unit where `one` is better by so much is added, and half a unit where it is worse, since two models that
    agree on every row seen may still differ (after Agresti and Min 2005).
    """
    differences = np.asarray(one, np.float64) - np.asarray(other, np.float64)
    weights = np.asarray(weights, np.float64)
    if bound is None:
        return ratio(differences, weights, seed=seed)
    # As shares of the whole way from -bound to bound.
    shares = resample_shares((differences / bound + weights)[:, None] / 2, weights[:, None], seed=seed)
    value = differences.sum() / weights.sum()
    return around(value, bound * (2 * shares[:, 0] - 1))


class SolveRate(NamedTuple):
    """How often a setting solves its task over seeds: `solved` of `runs`, as `rate` with Wilson's interval.

    Success is bimodal, so that a mean of accuracies describes no run; their median, minimum and maximum do.
    """

    solved: int
    runs: int
    rate: Estimate
    median: float
    minimum: float
    maximum: float


def solve_rate(accuracies: Sequence[float], threshold: float = SOLVED) -> SolveRate:
    """P(accuracy >= threshold) over runs; one that diverged (NaN) counts as an accuracy of 0."""
    reached = np.nan_to_num(np.asarray(accuracies, np.float64), nan=0.0)
    if len(reached) == 0:
        nothing = float("nan")
        return SolveRate(0, 0, wilson(0, 0), nothing, nothing, nothing)
    solved = int((reached >= threshold).sum())
    spread = (float(figure) for figure in (np.median(reached), reached.min(), reached.max()))
    return SolveRate(solved, len(reached), wilson(solved, len(reached)), *spread)


def area_over_log2(distances: np.ndarray, accuracies: np.ndarray) -> np.ndarray:
    """The mean of a curve over log2 distance: `mean_along` of positive distances [points]."""
    return mean_along(np.log2(np.asarray(distances, np.float64)), accuracies)


def mean_along(at: np.ndarray, accuracies: np.ndarray) -> np.ndarray:
    """The mean of a curve, by trapezoids: 1 where it is 1 throughout, whatever its range.

    at: [points], increasing; accuracies: [..., points]. A single point is its own mean.
    """
    accuracies = np.asarray(accuracies, np.float64)
    if len(at) == 1:
        return accuracies[..., 0]
    steps = np.diff(np.asarray(at, np.float64))
    return ((accuracies[..., 1:] + accuracies[..., :-1]) / 2 * steps).sum(axis=-1) / steps.sum()


def horizon50(distances: np.ndarray, accuracies: np.ndarray) -> float:
    """The distance at which a curve first falls through 1/2, interpolated in log2 distance.

    Infinity where it reaches 1/2 and never falls within the distances measured, 0 where it never reaches 1/2.
    A curve may begin below: some models miss the pair right before the query, and no other.
    """
    holds = np.asarray(accuracies) >= 0.5
    falls = np.flatnonzero(holds[:-1] & ~holds[1:])
    if len(falls) == 0:
        return float("inf") if holds[-1] else 0.0
    first = int(falls[0])
    x0, x1 = np.log2(distances[first]), np.log2(distances[first + 1])
    y0, y1 = accuracies[first], accuracies[first + 1]
    return float(2 ** (x0 + (y0 - 0.5) / (y0 - y1) * (x1 - x0)))
