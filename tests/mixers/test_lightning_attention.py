"""Lightning attention's decays by head and depth, and its settings."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from seqmodels.errors import InputError
from seqmodels.mixers import LightningAttention
from seqmodels.mixers.lightning_attention import log_decays


def test_decays_by_hand():
    """Eight heads: slopes ½, ¼, ..., 2^-8 in the first of four layers, two thirds of them in the second."""
    slopes = np.array([0.5, 0.25, 0.125, 0.0625, 2.0**-5, 2.0**-6, 2.0**-7, 2.0**-8])
    for layer, share in ((0, 1), (1, 2 / 3), (2, 1 / 3)):
        np.testing.assert_allclose(log_decays(8, layer, 4), -share * slopes, rtol=1e-4)


def test_the_last_layer_hardly_forgets_and_keeps_its_digits():
    """1 − 3 / 3.00001 in float32 would be off by half a percent."""
    exact = 1 - 3 / (3 + 1e-5) + 1e-5
    np.testing.assert_allclose(log_decays(1, 3, 4), -(2.0**-8) * exact, rtol=1e-6)


def test_a_traced_layer_has_the_decays_of_the_number():
    """In a scan over layers one program serves all of them."""
    run = jax.jit(lambda layer: log_decays(4, layer, 6))
    for layer in range(6):
        wanted = log_decays(4, layer, 6)
        np.testing.assert_allclose(run(jnp.asarray(layer, jnp.int32)), wanted, rtol=1e-6)
        assert (wanted < 0).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 3}, "LightningAttention.heads is 3, which does not divide the width, 32"),
        ({"conv_width": 0}, "LightningAttention.conv_width is 0; it must be at least 1"),
        ({"method": "fft"}, "LightningAttention.method is 'fft'; it must be one of auto, sequential"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(InputError, match=re.escape(message)):
        LightningAttention(32, rngs=nnx.Rngs(0), **settings)
