"""HGRN2's gates, their bound by depth, and what it is the same as."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from seqmodels.errors import InputError
from seqmodels.mixers import HGRN2
from seqmodels.mixers.hgrn2 import gates
from seqmodels.ops import linear_attention, linear_recurrence
from tests.mixers.subjects import Subject, agree, build, module, normal

F = np.array([-1e4, -80.0, -3.0, 0.0, 3.0, 12.0, 80.0, 1e4])


@pytest.mark.parametrize("bound", [0.0, 1 / 3, 11 / 12])
def test_gates_in_float64(bound):
    """The forget gate's logarithm and the input gate, from shut to open, and finite gradients of both."""
    with np.errstate(over="ignore"):
        shut = 1 / (1 + np.exp(F))
    g, k = gates(jnp.asarray(F, jnp.float32), jnp.float32(bound))
    np.testing.assert_allclose(k, (1 - bound) * shut, rtol=1e-6, atol=1e-37)
    wanted = np.log1p(-(1 - bound) * shut) if bound else -np.logaddexp(0, -F)
    np.testing.assert_allclose(g, wanted, rtol=1e-5, atol=1e-7)
    assert (g <= 0).all()
    for part in (0, 1):
        slopes = jax.grad(lambda f, part=part: gates(f, jnp.float32(bound))[part].sum())(
            jnp.asarray(F, jnp.float32)
        )
        assert jnp.isfinite(slopes).all()


def test_it_is_gated_linear_attention_whose_keys_are_what_is_forgotten():
    """K^−½ SiLU(q) reads Σ e^{s(i, j)} (1 − f_j) v_j: the op of gated linear attention with k = 1 − e^g."""
    subject = Subject("HGRN2", "auto", "bounded")
    mixer, (_, params) = module(subject), build(subject)
    x = normal(2, 24, 32)
    names = "query", "forget", "value"
    q, f, v = (
        convolution(x @ params[name]["kernel"], segment_ids=None, state=jnp.zeros((2, 3, 32)))[0]
        for name, convolution in zip(names, mixer.convolutions.streams, strict=True)
    )
    g = jnp.log(1 / 3 + 2 / 3 * jax.nn.sigmoid(f))
    q, k, v, g = (y.reshape(2, 24, 2, 16) for y in (jax.nn.silu(q), 1 - jnp.exp(g), v, g))
    o, state = linear_attention(q, k, v, log_decay=g, method="sequential")
    y, after = mixer(x)
    agree(y, mixer.output(o, x))
    agree(after.memory, state.kv)


def test_with_a_value_of_one_channel_it_is_hgrn():
    """h_t = f h_{t−1} + (1 − f) v_t elementwise is what each column of the matrix does."""
    f, v = normal(2, 24, 1, 8), normal(2, 24, 1, 1, seed=1)
    g, k = gates(jnp.asarray(f), jnp.float32(0.25))
    q = jnp.broadcast_to(jnp.eye(8)[:, None, None, None], (8, 2, 24, 1, 8))
    reads = [linear_attention(one, k, v, log_decay=g, scale=1.0)[0] for one in q]
    h, _ = linear_recurrence(jnp.exp(g), k * v)
    agree(jnp.concatenate(reads, axis=-1), h)


def test_head_sizes_at_any_width():
    """128 channels a head where the width has them."""
    for width, heads, head_dim in ((32, 1, 32), (96, 1, 96), (160, 1, 128), (256, 2, 128)):
        mixer = nnx.eval_shape(lambda width=width: HGRN2(width, rngs=nnx.Rngs(0)))
        assert (mixer.heads, mixer.head_dim) == (heads, head_dim)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 3}, "HGRN2.heads is 3, which does not divide the width, 32"),
        ({"head_dim": 0}, "HGRN2.head_dim is 0; it must be at least 1"),
        ({"method": "parallel"}, "HGRN2.method is 'parallel'; it must be one of auto, sequential"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(InputError, match=re.escape(message)):
        HGRN2(32, rngs=nnx.Rngs(0), **settings)
