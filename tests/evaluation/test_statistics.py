"""Intervals cover what they claim to, and the summaries of a curve are those of its definition."""

import numpy as np
import pytest

from seqmodels.evaluation import statistics


def test_wilson_known_values():
    """81 of 263 as published (Newcombe 1998, method 3); the ends, where the naive interval has no width."""
    assert statistics.wilson(81, 263) == pytest.approx((0.3080, 0.2553, 0.3662), abs=5e-5)
    assert statistics.wilson(0, 20) == pytest.approx((0.0, 0.0, 0.1611), abs=5e-5)
    assert statistics.wilson(20, 20).low == pytest.approx(1 - 0.1611, abs=5e-5)


def test_a_share_of_nothing_or_all_lies_in_its_own_interval():
    """Rounding would leave 1 above its upper bound, and 0 below its lower one."""
    for trials in (*range(1, 600), 10_000):
        assert statistics.wilson(0, trials).low == 0.0
        assert statistics.wilson(trials, trials).high == 1.0
        assert statistics.wilson(1, trials).low > 0
        assert statistics.wilson(trials - 1, trials).high < 1


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


def test_one_unit_has_no_interval():
    """Drawn a thousand times it is always the same, which is no certainty but no knowledge."""
    for numerators, denominators in (([3.0], [2]), ([3.0, 0.0], [2, 0])):
        estimate = statistics.ratio(np.array(numerators), np.array(denominators))
        assert estimate.value == 1.5
        assert np.isnan(estimate[1:]).all()
        assert estimate.shown(2) == ("1.50", "interval not known")


def test_resampled_sums_draw_as_many_units_as_there_are():
    """Too few or too many draws would scale the interval."""
    sums = statistics.resample_sums(np.ones((7, 2)))
    np.testing.assert_array_equal(sums, np.full((statistics.RESAMPLES, 2), 7.0))


def test_resampled_shares_are_jeffreys_interval():
    """263 rows of one trial, 81 right: Beta(81.5, 182.5), as published (Brown, Cai, DasGupta 2001)."""
    right = (np.arange(263) < 81)[:, None]
    samples = statistics.resample_shares(right, np.ones((263, 1)), resamples=20_000)
    assert np.percentile(samples, [2.5, 97.5]) == pytest.approx((0.2545, 0.3657), abs=2e-3)


def test_shares_of_nothing_and_of_all_have_a_width():
    """The ordinary bootstrap gives 1.000 to 1.000 after 50 rows without an error; Jeffreys 0.951 to 1."""
    samples = statistics.resample_shares(np.array([[1, 0]] * 50), np.ones((50, 2)), resamples=20_000)
    right, wrong = (statistics.around(value, samples[:, at]) for at, value in enumerate((1.0, 0.0)))
    assert right == pytest.approx((1.0, 0.951, 1.0), abs=2e-3)
    assert wrong == pytest.approx((0.0, 0.0, 0.049), abs=2e-3)


def test_shares_keep_rows_together():
    """Eight queries of one row, all right or all wrong, say as much as one query."""
    once = (np.arange(100) < 50)[:, None]
    samples = statistics.resample_shares(
        np.concatenate([once, 8 * once], axis=1), np.repeat([[1, 8]], 100, axis=0)
    )
    np.testing.assert_allclose(samples[:, 0], samples[:, 1])


def test_share_of_no_trials():
    """A point without queries has no accuracy, and must not become one of its neighbours'."""
    samples = statistics.resample_shares(np.array([[1, 0]] * 5), np.array([[1, 0]] * 5))
    assert np.isnan(samples[:, 1]).all()
    assert np.isfinite(samples[:, 0]).all()


def test_paired_difference_forgets_how_hard_a_row_is():
    """Two models a tenth apart on rows that differ by far more: told apart paired, and only so."""
    generator = np.random.default_rng(0)
    hard = generator.normal(0, 5, 200)
    one, other = hard + 0.1, hard + generator.normal(0, 0.1, 200)
    estimate = statistics.paired_difference(one, other, np.ones(200))
    assert estimate.value == pytest.approx((one - other).mean())
    assert 0.05 < estimate.low < estimate.high < 0.15
    assert estimate.high - estimate.low == pytest.approx(2 * 1.96 * 0.1 / 200**0.5, rel=0.2)


def test_paired_difference_weighs_rows_by_their_queries():
    """A mean of differences of rows would be 0 here."""
    one, other = np.array([8.0, 0.0] * 50), np.array([4.0, 1.0] * 50)
    estimate = statistics.paired_difference(one, other, np.array([8, 2] * 50))
    assert estimate.value == pytest.approx(3 / 10)


def test_models_that_agree_on_every_row_may_still_differ():
    """0 to 0 would say that they cannot; where they differ, the bound changes next to nothing."""
    same = statistics.paired_difference(np.ones(50), np.ones(50), np.ones(50), bound=1)
    assert same.value == 0.0
    assert -0.06 < same.low < -0.01
    assert 0.01 < same.high < 0.06
    one, other = np.arange(400) % 2, np.arange(400) % 4 == 0
    bounded, free = (
        statistics.paired_difference(one, other, np.ones(400), bound=bound) for bound in (1, None)
    )
    assert bounded == pytest.approx(free, abs=0.02)


def test_solve_rate():
    """Success is bimodal: k of n and the spread, where a mean of 0.68 would describe no run."""
    rate = statistics.solve_rate([0.99, 0.95, 0.949, 0.03, float("nan")])
    assert (rate.solved, rate.runs) == (2, 5)
    assert rate.rate == statistics.wilson(2, 5)
    assert (rate.median, rate.minimum, rate.maximum) == (0.949, 0.0, 0.99)
    assert statistics.solve_rate([]).runs == 0


def test_area_is_over_log2_distance():
    """Right at 1 and 2, wrong at 4 to 16: half of the step from 2 to 4 counts, of four octaves."""
    accuracy = np.array([1.0, 1.0, 0.0, 0.0, 0.0])
    assert statistics.area_over_log2(np.array([1, 2, 4, 8, 16]), accuracy) == pytest.approx(1.5 / 4)
    assert statistics.area_over_log2(np.array([3]), np.array([0.25])) == 0.25


def test_horizon():
    """Interpolated in log2 distance; infinite where the curve ends above, 0 where it never comes there."""
    distances = np.array([1, 4, 16])
    assert statistics.horizon50(distances, np.array([1.0, 0.75, 0.25])) == pytest.approx(8.0)
    assert statistics.horizon50(distances, np.array([1.0, 0.9, 0.5])) == float("inf")
    assert statistics.horizon50(distances, np.array([0.4, 0.4, 0.3])) == 0.0
    assert statistics.horizon50(distances, np.array([0.0, 0.9, 0.5])) == float("inf")
    assert statistics.horizon50(distances, np.array([0.0, 0.75, 0.25])) == pytest.approx(8.0)
