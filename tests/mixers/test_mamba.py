"""Mamba's own initialisation and settings."""

import re

import jax
import numpy as np
import pytest
from flax import nnx

from seqmodels.errors import InputError
from seqmodels.mixers import Mamba


def test_initialisation_of_rates_and_steps():
    """A = −1..−N in every channel, D = 1, steps log-uniform in [1e-3, 1e-1]: what lets it remember."""
    mixer = Mamba(256, rngs=nnx.Rngs(0))
    np.testing.assert_allclose(-np.exp(mixer.A_log[...]), np.tile(-np.arange(1.0, 17.0), (512, 1)), rtol=1e-6)
    np.testing.assert_array_equal(mixer.D[...], 1)
    steps = np.sort(np.log(jax.nn.softplus(mixer.dt_bias[...])))
    assert np.log(1e-3) - 1e-4 <= steps[0]
    assert steps[-1] <= np.log(1e-1) + 1e-4
    # Kolmogorov-Smirnov against uniform: 512 draws stay within 0.09 but once in a thousand.
    uniform = (steps - np.log(1e-3)) / np.log(100)
    assert np.abs(uniform - np.linspace(0, 1, 512)).max() < 0.09
    bound = 16**-0.5
    assert np.abs(mixer.dt_kernel[...]).max() == pytest.approx(bound, rel=1e-2)


def test_the_state_is_expand_times_width_by_state_size():
    state = Mamba(32, expand=3, state_size=5, rngs=nnx.Rngs(0)).init_state(2, 100)
    assert state.scan.shape == (2, 96, 5)
    assert state.window.shape == (2, 3, 96)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"state_size": 0}, "Mamba.state_size is 0; it must be at least 1"),
        ({"expand": 0}, "Mamba.expand is 0; it must be at least 1"),
        ({"conv_width": 0}, "Mamba.conv_width is 0; it must be at least 1"),
        (
            {"method": "parallel"},
            "Mamba.method is 'parallel'; it must be one of auto, sequential, associative",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(InputError, match=re.escape(message)):
        Mamba(32, rngs=nnx.Rngs(0), **settings)
