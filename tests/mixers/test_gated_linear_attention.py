"""Gated linear attention's gate, its sizes and settings."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from seqmodels.errors import InputError
from seqmodels.mixers import GatedLinearAttention
from tests.mixers.subjects import randomised


def test_the_gate_starts_at_a_half_life_of_sixteen_tokens():
    """Without the division by 16 of its logarithm a gate of ½ forgets half at every token."""
    mixer = GatedLinearAttention(32, rngs=nnx.Rngs(0))
    mixer.value.kernel[...] = jnp.ones((32, 32))
    mixer.key.kernel[...] = jnp.ones((32, 16))
    _, first = mixer(jnp.ones((1, 1, 32)))
    silence = jnp.zeros((1, 16, 32))  # writes nothing, and its gate is sigmoid(0)
    _, later = mixer(silence, state=first)
    np.testing.assert_allclose(later.memory / first.memory, 0.5, rtol=1e-5)


def test_each_key_channel_forgets_at_its_own_rate():
    """A rate for the whole head would be another mixer, and keep another shape of gate."""
    mixer = GatedLinearAttention(32, heads=2, rngs=nnx.Rngs(0))
    graphdef, params = nnx.split(mixer, nnx.Param)
    mixer = nnx.merge(graphdef, randomised(nnx.to_pure_dict(params)))
    mixer.forget.bias[...] = jnp.linspace(-4, 4, 16)
    _, first = mixer(jnp.ones((1, 1, 32)))
    _, later = mixer(jnp.zeros((1, 1, 32)), state=first)
    kept = np.asarray(later.memory / first.memory)
    wanted = (1 / (1 + np.exp(-np.linspace(-4, 4, 16)))) ** (1 / 16)
    np.testing.assert_allclose(kept, np.broadcast_to(wanted.reshape(1, 2, 8, 1), kept.shape), rtol=1e-5)


def test_half_the_width_in_keys_and_all_of_it_in_values():
    for width in (32, 96, 160, 256):
        mixer = nnx.eval_shape(lambda width=width: GatedLinearAttention(width, rngs=nnx.Rngs(0)))
        memory = jax.eval_shape(lambda mixer=mixer: mixer.init_state(1, 9)).memory
        assert memory.shape == (1, 4, width // 8, width // 4)
        assert mixer.forget.down.kernel.shape == (width, 16)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 3}, "GatedLinearAttention.heads is 3, which does not divide half the width, 16"),
        ({"heads": 32}, "GatedLinearAttention.heads is 32, which does not divide half the width, 16"),
        ({"gate_rank": 0}, "GatedLinearAttention.gate_rank is 0; it must be at least 1"),
        (
            {"method": "parallel"},
            "GatedLinearAttention.method is 'parallel'; it must be one of auto, sequential",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(InputError, match=re.escape(message)):
        GatedLinearAttention(32, rngs=nnx.Rngs(0), **settings)
