"""S4D's own initialisation and settings, and its two forms as they start."""

import re

import jax
import numpy as np
import pytest
from flax import nnx

from seqmodels.errors import InputError
from seqmodels.mixers import S4D
from tests.mixers.subjects import normal, relative_rms


def test_initialisation_is_s4d_lin():
    """A = −½ + iπn in every channel, C of variance 1, steps log-uniform in [1e-3, 1e-1]."""
    mixer = S4D(256, rngs=nnx.Rngs(0))
    np.testing.assert_allclose(-np.exp(mixer.A_log[...]), -0.5, rtol=1e-6)
    np.testing.assert_allclose(mixer.A_imag[...], np.tile(np.pi * np.arange(32), (256, 1)), rtol=1e-6)
    C = np.asarray(mixer.C[...])
    np.testing.assert_allclose((C**2).mean((1, 2)), 0.5, rtol=0.05)
    steps = np.exp(np.asarray(mixer.dt_log[...]))
    assert 0.00099 <= steps.min() < 0.0012
    assert 0.08 < steps.max() <= 0.1001


def test_convolution_is_the_recurrence_as_it_starts():
    """Slow channels with fast turns: powers by products, or a cancelling e^z − 1, leave the recurrence."""
    x = normal(2, 500, 32)
    outputs = []
    for method in ("sequential", "convolution"):
        mixer = S4D(32, method=method, rngs=nnx.Rngs(0))
        outputs.append(jax.jit(lambda x, mixer=mixer: mixer(x)[0])(x))
    assert relative_rms(outputs[1], outputs[0]) < 1e-5


def test_the_state_is_pairs_of_real_numbers():
    state = S4D(32, state_size=10, rngs=nnx.Rngs(0)).init_state(2, 100)
    assert state.hidden.shape == (2, 32, 5, 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"state_size": 7}, "S4D.state_size is 7; its eigenvalues come in pairs, so it must be even"),
        ({"state_size": 0}, "S4D.state_size is 0; it must be at least 1"),
        ({"method": "fft"}, "S4D.method is 'fft'; it must be one of auto, sequential, associative"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(InputError, match=re.escape(message)):
        S4D(32, rngs=nnx.Rngs(0), **settings)
