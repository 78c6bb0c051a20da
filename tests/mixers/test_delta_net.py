"""What is particular to the delta rule's mixers: overwriting, decays, their initialisation and settings."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from seqmodels.errors import InputError
from seqmodels.mixers import DeltaNet, GatedDeltaNet, KimiDeltaAttention
from tests.mixers.subjects import agree, normal


def reads(beta_kernel, **settings):
    """What the key of two tokens reads after the second, and the values v1 and v2 of both, [2, 32]."""
    mixer = DeltaNet(32, heads=1, conv_width=1, rngs=nnx.Rngs(0), **settings)
    # The first channel alone makes the key and β, the others the value.
    rows = jnp.arange(32)[:, None] == 0
    mixer.key.kernel[...] = jnp.where(rows, normal(32, 32, seed=1), 0)
    mixer.value.kernel[...] = jnp.where(rows, 0, normal(32, 32, seed=2))
    mixer.beta.kernel[...] = jnp.where(rows, beta_kernel, 0.0)
    mixer.convolutions.streams[1].kernel[...] = jnp.ones((1, 32))
    mixer.convolutions.streams[2].kernel[...] = jnp.ones((1, 32))
    x = jnp.asarray(normal(1, 2, 32, seed=3)).at[..., 0].set(1.0)
    _, state = jax.jit(lambda x: mixer(x))(x)
    k = jax.nn.silu(x[0, 1] @ mixer.key.kernel[...])
    k = k / jnp.linalg.norm(k)
    v = jax.nn.silu(x[0] @ mixer.value.kernel[...])
    return k @ state.memory[0, 0], v[0], v[1]


def test_writing_a_key_again_replaces_its_value():
    """With β = 1 the key reads the second value and nothing of the first; with ½, a quarter and a half."""
    got, _, second = reads(100.0)
    agree(got, second)
    got, first, second = reads(0.0)
    agree(got, first / 4 + second / 2)


def test_negative_eigenvalues_reflect():
    """β = 2 turns what the key read into its negative: without the factor it would only be replaced."""
    got, first, second = reads(100.0, negative_eigenvalues=True)
    agree(got, 2 * second - 2 * first)


def test_initialisation_of_rates_and_steps():
    """A in [1, 16] a head; softplus of the bias in [1e-3, 1e-1], for each key channel in Kimi's."""
    gated = GatedDeltaNet(64, heads=16, rngs=nnx.Rngs(0))
    kimi = KimiDeltaAttention(64, heads=16, rngs=nnx.Rngs(0))
    assert gated.dt_bias.shape == (16,)
    assert kimi.dt_bias.shape == (64,)
    for mixer in (gated, kimi):
        A, steps = np.exp(mixer.A_log[...]), jax.nn.softplus(mixer.dt_bias[...])
        assert A.shape == (16,)
        assert A.min() >= 1
        assert 8 < A.max() <= 16
        assert steps.min() >= 1e-3 * (1 - 1e-4)
        assert steps.max() <= 1e-1 * (1 + 1e-4)


def kept(mixer):
    """The share of an initial memory of ones that is left where nothing is written, [H, K, V]."""
    mixer.beta.kernel[...] = jnp.full(mixer.beta.kernel.shape, -100.0)
    x = jnp.ones((1, 1, 32))
    state = mixer.init_state(1, 1)
    state = state._replace(memory=jnp.ones_like(state.memory), last_id=jnp.ones(1, jnp.int32))
    return np.asarray(jax.jit(lambda x, state: mixer(x, state=state)[1].memory)(x, state))[0]


def test_decays_are_a_head_s_or_a_channel_s():
    """e^g with g = −A softplus(b) where the maps are 0: a rate for a head, or for each of its channels."""
    for mixer_class, shape in ((GatedDeltaNet, (2, 1, 1)), (KimiDeltaAttention, (2, 16, 1))):
        mixer = mixer_class(32, heads=2, rngs=nnx.Rngs(0))
        last = mixer.decay.kernel if mixer_class is GatedDeltaNet else mixer.decay.up
        last[...] = jnp.zeros(last.shape)
        dt = np.log1p(np.exp(np.asarray(mixer.dt_bias[...], np.float64))).reshape(shape)
        wanted = np.exp(-np.exp(np.asarray(mixer.A_log[...], np.float64)).reshape(2, 1, 1) * dt)
        agree(kept(mixer), np.broadcast_to(wanted, (2, 16, 32 if mixer_class is GatedDeltaNet else 16)))


def test_the_safe_gate_forgets_no_more_than_e_to_the_5():
    """The bound is what lets kernels do without rescaling; a gate of one sign or another bound would show."""
    mixer = KimiDeltaAttention(32, heads=2, safe_gate=True, rngs=nnx.Rngs(0))
    mixer.decay.up[...] = jnp.zeros(mixer.decay.up.shape)
    mixer.dt_bias[...] = jnp.repeat(jnp.asarray([-100.0, 0.0, 0.5, 100.0]), 8)
    A = np.repeat(np.exp(mixer.A_log[...]), 16)
    wanted = np.exp(-5 / (1 + np.exp(-A * np.asarray(mixer.dt_bias[...], np.float64))))
    agree(kept(mixer), np.broadcast_to(wanted.reshape(2, 16, 1), (2, 16, 16)))


@pytest.mark.parametrize(
    ("mixer", "shapes"),
    [
        (DeltaNet, {32: (1, 32, 32), 160: (2, 64, 64)}),
        (GatedDeltaNet, {32: (1, 32, 64), 160: (2, 64, 128)}),
        (KimiDeltaAttention, {32: (1, 32, 32), 160: (1, 128, 128), 256: (2, 128, 128)}),
    ],
)
def test_memories_by_default(mixer, shapes):
    """H, K and V of the published layers, at widths that their head dims need not divide."""
    for width, shape in shapes.items():
        built = nnx.eval_shape(lambda width=width: mixer(width, rngs=nnx.Rngs(0)))
        assert jax.eval_shape(lambda built=built: built.init_state(3, 9)).memory.shape == (3, *shape)


@pytest.mark.parametrize(
    ("mixer", "settings", "message"),
    [
        (DeltaNet, {"heads": 5}, "DeltaNet.heads is 5, which does not divide the width, 32"),
        (DeltaNet, {"conv_width": 0}, "DeltaNet.conv_width is 0; it must be at least 1"),
        (GatedDeltaNet, {"value_dim": 0}, "GatedDeltaNet.value_dim is 0; it must be at least 1"),
        (GatedDeltaNet, {"chunk_size": 0}, "GatedDeltaNet.chunk_size is 0; it must be at least 1"),
        (KimiDeltaAttention, {"gate_rank": 0}, "KimiDeltaAttention.gate_rank is 0; it must be at least 1"),
        (
            KimiDeltaAttention,
            {"method": "parallel"},
            "KimiDeltaAttention.method is 'parallel'; it must be one of auto, sequential",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(mixer, settings, message):
    with pytest.raises(InputError, match=re.escape(message)):
        mixer(32, rngs=nnx.Rngs(0), **settings)
