"""Linear maps, norms, feed-forwards, embeddings, sinusoids and dropout, against their equations in numpy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from seqmodels.nn.dropout import dropout
from seqmodels.nn.feed_forward import FeedForward, default_feed_forward_width
from seqmodels.nn.head_output import HeadOutput
from seqmodels.nn.linear import Embedding, Linear, residual_std
from seqmodels.nn.low_rank import LowRank
from seqmodels.nn.norms import GroupNorm, LayerNorm, RMSNorm, l2_norm
from seqmodels.nn.positions import sinusoidal
from seqmodels.nn.short_convolution import ShortConvolution


def vectors(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def test_linear_computes_in_the_dtype_of_its_input_from_float32_parameters():
    linear = Linear(8, 3, bias=True, rngs=nnx.Rngs(0))
    linear.bias[...] = vectors(3)
    x = vectors(2, 5, 8, seed=1)
    wanted = np.asarray(x) @ np.asarray(linear.kernel[...]) + np.asarray(linear.bias[...])
    np.testing.assert_allclose(linear(x), wanted, rtol=1e-5)
    assert linear(x.astype(jnp.bfloat16)).dtype == jnp.bfloat16
    assert linear.kernel[...].dtype == jnp.float32


def test_initialisation_scales():
    """N(0, 0.02), and projections into the residual stream smaller by the root of how many add up there."""
    for deviation, std in ((0.02, 0.02), (0.02 / np.sqrt(24), residual_std(12))):
        assert Linear(256, 256, std=std, rngs=nnx.Rngs(0)).kernel[...].std() == pytest.approx(
            deviation, rel=0.02
        )
    assert Embedding(256, 256, rngs=nnx.Rngs(0)).table[...].std() == pytest.approx(0.02, rel=0.02)


def test_a_low_rank_map_is_the_product_of_its_two():
    """A bias in the compute dtype would round a gate's float32."""
    low_rank = LowRank(8, 2, 3, bias=True, rngs=nnx.Rngs(0))
    low_rank.bias[...] = vectors(3)
    x = vectors(2, 5, 8, seed=1)
    down, up, bias = (np.asarray(p[...]) for p in (low_rank.down.kernel, low_rank.up, low_rank.bias))
    np.testing.assert_allclose(low_rank(x), np.asarray(x) @ down @ up + bias, rtol=1e-5)
    assert low_rank(x.astype(jnp.bfloat16)).dtype == jnp.float32
    assert low_rank.flops_per_token() == 2 * (8 * 2 + 2 * 3)


@pytest.mark.parametrize(
    ("activation", "function"), [("tanh", np.tanh), ("sigmoid", lambda y: 1 / (1 + np.exp(-y)))]
)
def test_a_low_rank_map_bends_between_its_products(activation, function):
    """After the second product, where a gate's own function stands, it would be another map."""
    low_rank = LowRank(8, 2, 3, activation=activation, rngs=nnx.Rngs(0))
    low_rank.down.kernel[...] = vectors(8, 2, seed=2)
    x = vectors(2, 5, 8, seed=1)
    down, up = np.asarray(low_rank.down.kernel[...]), np.asarray(low_rank.up[...])
    np.testing.assert_allclose(low_rank(x), function(np.asarray(x) @ down) @ up, rtol=1e-5, atol=1e-7)


def test_vectors_of_length_one():
    """1e-6 under the root keeps 0 at 0 with a finite slope; a mean for the sum would be an RMS norm."""
    x = vectors(3, 5)
    np.testing.assert_allclose((np.asarray(l2_norm(x)) ** 2).sum(-1), 1, rtol=1e-5)
    np.testing.assert_allclose(l2_norm(2e-3 * jnp.ones(4)), 2e-3 / np.sqrt(17e-6), rtol=1e-5)
    np.testing.assert_array_equal(jax.grad(lambda x: l2_norm(x).sum())(jnp.zeros(4)), np.full(4, 1000.0))


def test_group_norm_takes_mean_and_variance_of_each_head():
    """Over all heads at once, or without the mean, it would be another norm."""
    norm = GroupNorm(2, 3, epsilon=0.1)
    norm.scale[...], norm.bias[...] = vectors(2, 3), vectors(2, 3, seed=1)
    x = vectors(2, 5, 2, 3, seed=2)
    plain = np.asarray(x, np.float64)
    wanted = (plain - plain.mean(-1, keepdims=True)) / np.sqrt(plain.var(-1, keepdims=True) + 0.1)
    wanted = wanted * np.asarray(norm.scale[...]) + np.asarray(norm.bias[...])
    np.testing.assert_allclose(norm(x), wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("gate", [None, "silu", "sigmoid"])
@pytest.mark.parametrize("gate_rank", [None, 2])
def test_heads_are_normalised_then_gated_then_projected(gate, gate_rank):
    """A norm over all heads at once, or behind the gate, is another mixer."""
    output = HeadOutput(8, 2, 3, gate=gate, gate_rank=gate_rank, layers=2, rngs=nnx.Rngs(0))
    output.norm.scale[...] = vectors(2, 3)
    o, x = vectors(2, 5, 2, 3, seed=1), vectors(2, 5, 8, seed=2)
    plain = np.asarray(o)
    wanted = plain / np.sqrt((plain**2).mean(-1, keepdims=True) + 1e-5) * np.asarray(output.norm.scale[...])
    wanted = wanted.reshape(2, 5, 6)
    if gate is not None:
        z = np.asarray(output.gate(x))
        wanted = wanted / (1 + np.exp(-z)) * (z if gate == "silu" else 1)
    wanted = wanted @ np.asarray(output.projection.kernel[...])
    np.testing.assert_allclose(output(o, x), wanted, rtol=1e-4, atol=1e-7)
    low = output(o.astype(jnp.bfloat16), x.astype(jnp.bfloat16))
    assert low.dtype == jnp.bfloat16


def test_norms():
    x = vectors(2, 5, 8) * 3 + 1
    rms, layer = RMSNorm(8), LayerNorm(8)
    rms.scale[...] = layer.scale[...] = vectors(8, seed=1)
    layer.bias[...] = vectors(8, seed=2)
    scale = np.asarray(rms.scale[...])
    plain = np.asarray(x)
    wanted = plain / np.sqrt((plain**2).mean(-1, keepdims=True) + 1e-5) * scale
    np.testing.assert_allclose(rms(x), wanted, rtol=1e-5)
    centred = plain - plain.mean(-1, keepdims=True)
    wanted = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale + np.asarray(
        layer.bias[...]
    )
    np.testing.assert_allclose(layer(x), wanted, rtol=1e-4, atol=1e-6)


def test_norms_are_float32_inside():
    """In bfloat16 the mean square of 1,000 channels would be off by percents."""
    x = (vectors(1, 1000) * 50).astype(jnp.bfloat16)
    for norm in (RMSNorm(1000), LayerNorm(1000)):
        y = norm(x)
        assert y.dtype == jnp.bfloat16
        assert float((y.astype(jnp.float32) ** 2).mean()) == pytest.approx(1.0, abs=5e-3)


@pytest.mark.parametrize("kind", ["relu", "gelu", "swiglu"])
def test_feed_forward(kind):
    """The gate goes through SiLU and the other branch does not."""
    block = FeedForward(8, 32, kind=kind, layers=1, rngs=nnx.Rngs(0))
    x = vectors(2, 3, 8) * 20
    up = x @ block.up.kernel[...]
    if kind == "swiglu":
        gate = np.asarray(x @ block.gate.kernel[...], np.float64)
        hidden = gate / (1 + np.exp(-gate)) * up
    elif kind == "relu":
        hidden = np.maximum(up, 0)
    else:
        hidden = 0.5 * up * (1 + np.tanh(np.sqrt(2 / np.pi) * (up + 0.044715 * up**3)))
    np.testing.assert_allclose(block(x), hidden @ np.asarray(block.down.kernel[...]), rtol=1e-3, atol=1e-5)


def test_swiglu_has_the_parameters_of_the_others():
    """Three matrices of 8/3 width against two of 4: equal within the rounding to 32."""
    for width in (64, 96, 128, 256, 768):
        two = 2 * default_feed_forward_width(width, "relu")
        three = 3 * default_feed_forward_width(width, "swiglu")
        assert default_feed_forward_width(width, "swiglu") % 32 == 0
        assert 0 <= three - two < 3 * 32


def test_an_id_outside_the_table_is_nan():
    """Clamped, it would silently read another token's vector."""
    table = Embedding(5, 4, rngs=nnx.Rngs(0))
    y = table(jnp.asarray([[0, 4, 5, -1]]))
    assert jnp.isfinite(y[0, :2]).all()
    assert jnp.isnan(y[0, 2:]).all()


def test_logits_are_float32_products_with_every_entry():
    table = Embedding(5, 4, rngs=nnx.Rngs(0))
    x = vectors(1, 2, 4)
    np.testing.assert_allclose(table.logits(x), x @ table.table[...].T, rtol=1e-5)
    assert table.logits(x.astype(jnp.bfloat16)).dtype == jnp.float32


def test_sinusoids():
    """Sine at even channels, cosine at odd ones, wavelength 2π · 10000^(2i/D)."""
    table = sinusoidal(jnp.asarray([[0, 1, 50]]), 6)
    for i in range(3):
        angle = np.array([0.0, 1.0, 50.0]) / 10_000 ** (2 * i / 6)
        np.testing.assert_allclose(table[0, :, 2 * i], np.sin(angle), atol=1e-5)
        np.testing.assert_allclose(table[0, :, 2 * i + 1], np.cos(angle), atol=1e-5)


def test_dropout():
    """Kept elements grow by 1/(1 − rate), so that the mean stays; without a key nothing happens."""
    x = jnp.ones((100, 100))
    y = dropout(x, 0.25, jax.random.key(0))
    assert set(np.unique(y)) == {0.0, np.float32(1 / 0.75)}
    assert float(y.mean()) == pytest.approx(1.0, abs=0.02)
    assert dropout(x, 0.25, None) is x
    assert dropout(x, 0.0, jax.random.key(0)) is x


def test_short_convolution_is_causal_and_ends_in_silu():
    """The last tap meets the current token; a flipped kernel would meet the oldest."""
    convolution = ShortConvolution(2, 3, bias=True, rngs=nnx.Rngs(0))
    kernel = vectors(3, 2, seed=1)
    convolution.kernel[...], convolution.bias[...] = kernel, vectors(2, seed=2)
    x = vectors(1, 5, 2)
    y, window = convolution(x, segment_ids=None, state=convolution.init_state(1))
    padded = np.pad(np.asarray(x[0]), ((2, 0), (0, 0)))
    sums = np.stack([(padded[t : t + 3] * kernel).sum(0) for t in range(5)]) + np.asarray(
        convolution.bias[...]
    )
    np.testing.assert_allclose(y[0], sums / (1 + np.exp(-sums)), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(window[0], x[0, -2:])
