"""RWKV-7's own initialisation, its token shift, what it unlearns, and settings."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from seqmodels.errors import InputError
from seqmodels.mixers import RWKV7
from seqmodels.mixers.rwkv7 import ranks
from tests.mixers.subjects import agree, normal


def test_initial_decays_and_shares_by_depth():
    """Slow and fast channels in every layer; the token before counts most in first channels and layers."""
    for layer in (0, 3):
        mixer = RWKV7(64, heads=2, layer=layer, layers=4, rngs=nnx.Rngs(0))
        mixer.decay.up[...] = jnp.zeros(mixer.decay.up.shape)
        bias = np.asarray(mixer.decay.bias[...], np.float64)
        kept = np.exp(-np.exp(-0.5) / (1 + np.exp(-bias)))
        assert kept[0] == pytest.approx(0.9975, abs=1e-4)
        assert kept[-1] == pytest.approx(0.6856, abs=1e-4)
        assert (np.diff(kept) < 0).all()
        shares = np.asarray(mixer.lerp[...])
        assert (shares[:, 0] == 1).all()
        assert (np.diff(shares, axis=1) < 0).all()
        power = {0: 0.7, 3: 0.7 / 4}[layer]
        np.testing.assert_allclose(shares[2, 32], 1 - 0.5**power, rtol=1e-6)


def test_the_shift_reads_the_token_before_of_the_same_document():
    """With every share at 1 a token's r, k, v, gates are those of the token before it, and 0 at the first."""
    mixer = RWKV7(32, heads=1, rngs=nnx.Rngs(0))
    mixer.lerp[...] = jnp.ones((6, 32))
    run = jax.jit(lambda x, ids: mixer._shifted(x, ids, mixer.init_state(1, 6)))
    x = normal(1, 6, 32)
    streams, window = run(x, jnp.asarray([[1, 1, 0, 1, 2, 2]], jnp.int32))
    for y in streams:
        agree(y[0, [0, 1, 3, 4, 5]], np.stack([0 * x[0, 0], x[0, 0], x[0, 1], 0 * x[0, 0], x[0, 4]]))
    np.testing.assert_array_equal(window[0, 0], x[0, 5])


def test_a_key_is_unlearned_by_the_share_alpha():
    """Of what κ reads, e^g − α is left where every channel fades alike: a sign or a missing α would show."""
    mixer = RWKV7(32, heads=1, rngs=nnx.Rngs(0))
    mixer.value.kernel[...] = jnp.zeros((32, 32))  # nothing is written
    mixer.decay.up[...] = jnp.zeros(mixer.decay.up.shape)
    mixer.decay.bias[...] = jnp.zeros(32)
    mixer.alpha.up[...] = jnp.zeros(mixer.alpha.up.shape)
    mixer.alpha.bias[...] = jnp.full(32, np.log(3.0))  # α = ¾
    memory = jnp.asarray(normal(1, 1, 32, 32, seed=1))
    state = mixer.init_state(1, 1)._replace(memory=memory, last_id=jnp.ones(1, jnp.int32))
    x = jnp.asarray(normal(1, 1, 32))
    after = jax.jit(lambda x, state: mixer(x, state=state)[1].memory)(x, state)
    mixed = x[0, 0] * (1 - mixer.lerp[...][2])  # before the first token stands 0
    key = mixed @ mixer.key.kernel[...]
    key = key / jnp.linalg.norm(key)
    kept = np.exp(-np.exp(-0.5) / 2)
    agree(key @ after[0, 0], (kept - 0.75) * (key @ memory[0, 0]))
    other = normal(32, seed=2)
    other = other - (other @ key) * key
    agree(other @ after[0, 0], kept * (other @ memory[0, 0]))


def test_ranks_as_released():
    """0.6 D^0.8 and 1.8 √D in whole 32s."""
    assert ranks(128) == (32, 32)
    assert ranks(768) == (128, 64)
    assert ranks(4096) == (480, 128)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 5}, "RWKV7.heads is 5, which does not divide the width, 32"),
        ({"rank": 0}, "RWKV7.rank is 0; it must be at least 1"),
        ({"chunk_size": 0}, "RWKV7.chunk_size is 0; it must be at least 1"),
        ({"method": "parallel"}, "RWKV7.method is 'parallel'; it must be one of auto, sequential, chunked"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(InputError, match=re.escape(message)):
        RWKV7(32, rngs=nnx.Rngs(0), **settings)
