"""Half-lives and survival against their closed forms."""

import numpy as np
import pytest

from seqmodels.evaluation.half_lives import HalfLives, Survival, effective_memory, falls_through, half_life


def test_known_decays():
    """The figures that are published for h = a h + x; a base of 10 or a mean of factors would miss them."""
    a = np.log([0.5, 0.8, 0.95, 0.99, 1.0])
    np.testing.assert_allclose(half_life(a), [1.0, 3.106, 13.513, 68.968, np.inf], rtol=1e-3)
    np.testing.assert_allclose(effective_memory(a), [2, 5, 20, 100, np.inf])


def test_the_mean_is_that_of_the_logs():
    """One token that forgets all but a hundredth among nine that forget nothing: not a mean factor of 0.9."""
    factors = np.array([0.01] + [1.0] * 9)
    lives = HalfLives(np.log(factors).sum().reshape(1, 1, 1), np.array([[10.0]]), ("text",), (1,))
    assert lives.tokens()[0] == pytest.approx(-np.log(2) / (np.log(0.01) / 10))
    assert lives.tokens()[0] < half_life(np.log(factors.mean()))


def test_kinds_and_intervals():
    """A kind's tokens must not enter another's, and rows, not tokens, are resampled."""
    rows = np.arange(1, 9)
    counts = np.stack([np.full(8, 10.0), np.full(8, 2.0)], axis=1)
    per_token = np.stack([-0.01 * rows, np.full(8, -1.0)], axis=1)
    sums = (per_token * counts)[:, :, None] * np.array([1.0, 2.0, 0.0])
    lives = HalfLives(sums, counts, ("filler", "key"), (3,))
    np.testing.assert_allclose(np.log(2) / lives.tokens("filler"), [0.045, 0.09, 0])
    np.testing.assert_allclose(lives.tokens("key")[:2], np.log(2) / np.array([1, 2]))
    both = (10 * 0.045 + 2 * 1) / 12
    np.testing.assert_allclose(lives.tokens()[0], np.log(2) / both)
    middle = lives.median("filler")
    assert middle.value == pytest.approx(np.log(2) / 0.045)
    assert middle.low < middle.value < middle.high
    assert lives.median("key").low == pytest.approx(lives.median("key").high)
    assert lives.beyond(5).value == pytest.approx(1 / 3)
    assert lives.beyond(2).value == pytest.approx(2 / 3)
    assert lives.every_unit()["all"][2] == np.inf


def test_where_a_curve_falls_through():
    """Exact between lags where it is exponential; 0 and infinity at the ends."""
    lags = np.array([0, 1, 2, 4, 8, 16, 32])
    assert falls_through(lags, 0.9**lags, 0.5) == pytest.approx(np.log(0.5) / np.log(0.9))
    assert falls_through(lags, np.ones(7), 0.5) == np.inf
    assert falls_through(lags[1:], np.full(6, 0.3), 0.5) == 1
    assert 0 <= falls_through(lags, np.array([1.0, 0, 0, 0, 0, 0, 0]), 0.5) <= 1


def test_survival_of_one_decay():
    """Its half-life is the gate's, whatever the number of places that each row has for a lag."""
    counts = np.array([[40.0, 39, 37, 33, 25, 9, 0], [50, 49, 47, 43, 35, 19, 1]])
    lags = 2.0 ** np.arange(7)
    survival = Survival(counts * 0.95**lags, counts)
    assert survival.lags.tolist() == [0, 1, 2, 4, 8, 16, 32]  # one row has no room for 64
    np.testing.assert_allclose(survival.left, 0.95**survival.lags)
    for bound in survival.half_life:
        assert bound == pytest.approx(half_life(np.log(0.95)))
