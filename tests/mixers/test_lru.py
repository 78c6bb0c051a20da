"""LRU's own initialisation and settings."""

import re

import jax
import numpy as np
import pytest
from flax import nnx

from seqmodels.errors import InputError
from seqmodels.mixers import LRU
from tests.mixers.subjects import randomised


def test_eigenvalues_start_on_a_ring():
    """|λ|² uniform in [0.9², 0.999²] and phases in [0, π/10]: what it can keep, and how slowly it turns."""
    mixer = LRU(32, state_size=512, rngs=nnx.Rngs(0))
    squared = np.exp(-2 * np.exp(np.float64(mixer.nu_log[...])))
    phases = np.exp(np.float64(mixer.theta_log[...]))
    for values, low, high in ((squared, 0.9**2, 0.999**2), (phases, 0, np.pi / 10)):
        uniform = np.sort(values - low) / (high - low)
        # Kolmogorov-Smirnov against uniform: 512 draws stay within 0.09 but once in a thousand.
        assert np.abs(uniform - np.linspace(0, 1, 512)).max() < 0.09
        assert uniform[0] >= -1e-4
        assert uniform[-1] <= 1 + 1e-4


def test_no_parameter_makes_it_unstable():
    """|λ| < 1 for any ν: a decay above 1 would diverge with the length of the row."""
    mixer = LRU(32, rngs=nnx.Rngs(0))
    graphdef, params = nnx.split(mixer, nnx.Param)
    params = randomised(nnx.to_pure_dict(params))
    params["nu_log"] = np.linspace(-20, 5, 32).astype(np.float32)
    y, state = nnx.merge(graphdef, params)(jax.numpy.ones((1, 2000, 32)))
    assert np.isfinite(y).all()
    assert np.abs(state.hidden).max() < 1e4


def test_the_state_is_pairs_of_real_numbers():
    state = LRU(32, state_size=5, rngs=nnx.Rngs(0)).init_state(2, 100)
    assert state.hidden.shape == (2, 5, 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"state_size": 0}, "LRU.state_size is 0; it must be at least 1"),
        ({"method": "chunked"}, "LRU.method is 'chunked'; it must be one of auto, sequential, associative"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(InputError, match=re.escape(message)):
        LRU(32, rngs=nnx.Rngs(0), **settings)
