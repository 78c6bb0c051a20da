"""Intervals cover what they claim to, and the summaries of a curve are those of its definition."""

import numpy as np
import pytest

from seqmodels.evaluation import statistics


def test_wilson_known_values():
    """81 of 263 as published (Newcombe 1998, method 3); the ends, where the naive interval has no width."""
    assert statistics.wilson(81, 263) == pytest.approx((0.3080, 0.2553, 0.3662), abs=5e-5)
    assert statistics.wilson(0, 20) == pytest.approx((0.0, 0.0, 0.1611), abs=5e-5)
    assert statistics.wilson(20, 20).low == pytest.approx(1 - 0.1611, abs=5e-5)


def test_bootstrap_width_is_that_of_the_units():
    """Of a mean over n units the interval is about 2 * 1.96 standard errors wide, and it repeats exactly."""
    values = np.random.default_rng(0).normal(3.0, 2.0, 400)
    estimate = statistics.ratio(values, np.ones(400))
    assert estimate == statistics.ratio(values, np.ones(400))
    assert estimate.value == pytest.approx(values.mean())
    assert estimate.high - estimate.low == pytest.approx(2 * 1.96 * 2.0 / 20, rel=0.1)


def test_bootstrap_weights_units_by_their_denominator():
    """A long document counts by its tokens; a mean of per-document means would be 2."""
    assert statistics.ratio(np.array([9.0, 3.0]), np.array([9, 1])).value == pytest.approx(1.2)


def test_resampled_sums_draw_as_many_units_as_there_are():
    """Too few or too many draws would scale the interval."""
    sums = statistics.resample_sums(np.ones((7, 2)))
    np.testing.assert_array_equal(sums, np.full((statistics.RESAMPLES, 2), 7.0))


def test_area_is_over_log2_distance():
    """Right at 1 and 2, wrong at 4 to 16: half of the step from 2 to 4 counts, of four octaves."""
    accuracy = np.array([1.0, 1.0, 0.0, 0.0, 0.0])
    assert statistics.area_over_log2(np.array([1, 2, 4, 8, 16]), accuracy) == pytest.approx(1.5 / 4)
    assert statistics.area_over_log2(np.array([3]), np.array([0.25])) == 0.25


def test_horizon():
    """Interpolated in log2 distance; infinite where the curve stays above, 0 where it begins below."""
    distances = np.array([1, 4, 16])
    assert statistics.horizon50(distances, np.array([1.0, 0.75, 0.25])) == pytest.approx(8.0)
    assert statistics.horizon50(distances, np.array([1.0, 0.9, 0.5])) == float("inf")
    assert statistics.horizon50(distances, np.array([0.4, 0.9, 0.5])) == 0.0
