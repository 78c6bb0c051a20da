"""The two figures of a delta rule's forgetting, by hand and by drawing directions."""

import jax.numpy as jnp
import numpy as np
import pytest

from seqmodels.mixers.rank_one_decay import delta_log_decays, rank_one_log_decays
from tests.mixers.subjects import normal

K = 16


def unit(*shape, seed):
    x = normal(*shape, seed=seed)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def said(g, k, beta):
    values = delta_log_decays(*(jnp.asarray(value, jnp.float32)[None, None, None] for value in (g, k, beta)))
    return {name: float(value[0, 0, 0]) for name, value in values.items()}


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.5, 2.0])
def test_closed_forms_of_a_unit_key(beta):
    """log|1 − β| along the key, ½ log(1 − (2β − β²)/K) along any direction, with e^g beside both."""
    values = said([-0.5], unit(K, seed=0), beta)
    assert values["written"] == pytest.approx(np.log(abs(1 - beta)) - 0.5, abs=1e-5)
    assert values["random"] == pytest.approx(0.5 * np.log(1 - (2 * beta - beta**2) / K) - 0.5, abs=1e-6)


def test_random_is_the_mean_square_and_bounds_the_mean_log():
    """The docstring's claim: exact for the mean square, above the mean log by (2β − β²)²/(2K²) or so."""
    beta, k, u = 0.8, unit(K, seed=1), unit(400_000, K, seed=2)
    left = np.linalg.norm(u - beta * (u @ k)[:, None] * k, axis=-1)
    value = said([0.0], k, beta)["random"]
    assert value == pytest.approx(0.5 * np.log(np.mean(left**2)), abs=2e-4)
    gap = value - np.log(left).mean()
    assert gap == pytest.approx((2 * beta - beta**2) ** 2 / (2 * K**2), rel=0.35)


def test_the_ends():
    """β = 1 leaves nothing under the key; the square of e^−60 is 0 in float32; no key must give no NaN."""
    k = np.eye(K, dtype=np.float32)[0]
    assert said([0.0], k, 1.0)["written"] == -np.inf
    values = said(np.full(K, -60.0), unit(K, seed=3), 0.5)
    assert values["written"] == pytest.approx(-60 + np.log(0.5), abs=1e-4)
    assert values["random"] == pytest.approx(-60 + 0.5 * np.log(1 - 0.75 / K), abs=1e-4)
    nothing = said([-0.25], np.zeros(K), 1.0)
    assert nothing == {"written": pytest.approx(-0.25), "random": pytest.approx(-0.25)}


def test_no_factor_above_one():
    """Rounding above 0 would be a memory that grows."""
    one, none = jnp.ones((1, 1, 1, K)), jnp.zeros((1, 1, 1, K))
    for value in rank_one_log_decays(one, none, none, jnp.asarray(unit(1, 1, 1, K, seed=4))).values():
        assert (value <= 0).all()
