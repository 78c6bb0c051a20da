"""RG-LRU's own initialisation, its first tokens, and the published code's vectors."""

import os
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from seqmodels.errors import InputError
from seqmodels.mixers import RGLRU
from seqmodels.mixers.rglru import bounded_sqrt, gated_recurrence
from tests.mixers.subjects import agree, normal


def test_decays_start_uniform_in_area():
    """ρ² uniform over [0.9², 0.999²]: what keeps some channels for tens of tokens and some for a thousand."""
    mixer = RGLRU(32, recurrence_width=512, rngs=nnx.Rngs(0))
    squared = np.sort(np.exp(-2 * np.logaddexp(np.float64(mixer.Lambda[...]), 0)))
    assert squared[0] >= 0.9**2 - 1e-4
    assert squared[-1] <= 0.999**2 + 1e-6
    # Kolmogorov-Smirnov against uniform: 512 draws stay within 0.09 but once in a thousand.
    uniform = (squared - 0.9**2) / (0.999**2 - 0.9**2)
    assert np.abs(uniform - np.linspace(0, 1, 512)).max() < 0.09


def test_the_slope_of_the_root_is_bounded():
    """√u has an infinite slope at 0, where a gate is shut: one such token would make the step NaN."""
    u = jnp.asarray([0.0, 1e-12, 2.5e-7, 1e-4, 0.25])
    np.testing.assert_array_equal(bounded_sqrt(u), jnp.sqrt(u))
    slopes = jax.vmap(jax.grad(bounded_sqrt))(u)
    np.testing.assert_allclose(slopes, [1000.0, 1000.0, 1000.0, 50.0, 1.0], rtol=1e-6)


def test_a_first_token_enters_whole():
    """Its root is 1, whether the row begins, a document begins inside it, or padding stands before it."""
    mixer = RGLRU(32, rngs=nnx.Rngs(0))
    x = normal(1, 2, 32)
    ids = jnp.asarray([[0, 4, 5, 0, 5]])
    packed = jnp.concatenate([x[:, :1], x[:, :1], x[:, :1], x[:, 1:], x[:, 1:]], axis=1)
    y, _ = mixer(packed, segment_ids=ids)
    alone, state = mixer(x[:, :1])
    agree(y[:, 1:2], alone)
    agree(y[:, 2:3], alone)
    # Its second token does not: the row goes on from a state that is not empty.
    agree(y[:, 4:], mixer(x[:, 1:], state=state)[0])
    assert np.abs(y[:, 4:] - mixer(x[:, 1:])[0]).max() > 1e-4


CASES = ("T1_cache", "T5", "T37", "T37_cache", "T37_resets", "T64")


@pytest.mark.parametrize(
    ("case", "method"), [(case, "sequential") for case in CASES] + [("T37_resets", "associative")]
)
def test_vectors_of_the_published_code(refs, case, method):
    """Wrong if our recurrence, its resets or a gradient is not that of recurrentgemma (2efa84d)."""
    data = dict(np.load(os.path.join(refs, "ops", "rglru", f"{case}.npz")))
    # Position 0 begins a document; a row that goes on from a state does not begin at position 0.
    first = data["in_segment_pos"] == 0
    ids = jnp.asarray(1 + np.cumsum(first, axis=1), jnp.int32)
    inputs = {name.removeprefix("in_"): value for name, value in data.items() if name.startswith("in_")}
    del inputs["segment_pos"]

    def layer(x, a_param, wx, bx, wa, ba, h0=None):
        def gate(kernel, bias):
            parts = x.reshape(*x.shape[:2], *kernel.shape[:2])
            summed = jnp.einsum("bthi,hio->btho", parts, kernel) + bias[None, None]
            return jax.nn.sigmoid(summed.reshape(x.shape))

        return gated_recurrence(
            x,
            gate(wa, ba),
            gate(wx, bx),
            a_param,
            jnp.asarray(first),
            initial_state=h0,
            segment_ids=ids,
            method=method,
        )

    @jax.jit
    def pull(inputs, *cotangents):
        values, pullback = jax.vjp(lambda inputs: layer(**inputs), inputs)
        return values, *(pullback(pair)[0] for pair in cotangents)

    cotangents = {"grad_": (data["cot"], np.zeros(data["state_h"].shape, np.float32))}
    if "cotstate_h" in data:
        cotangents["gradfs_"] = (data["cot"], data["cotstate_h"])
    (out, state), *gradients = pull(inputs, *cotangents.values())
    close(out, data["out"], 2e-5, "out")
    close(state, data["state_h"], 2e-5, "state")
    for prefix, by_name in zip(cotangents, gradients, strict=True):
        for name, gradient in by_name.items():
            close(gradient, data[prefix + name], 1e-4, prefix + name)


def close(got, wanted, bound, name):
    """The largest difference is at most `bound` of the largest magnitude."""
    np.testing.assert_allclose(got, wanted, rtol=0, atol=bound * np.abs(wanted).max(), err_msg=name)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 5}, "RGLRU.heads is 5, which does not divide the width of the recurrence, 32; choose"),
        ({"recurrence_width": 0}, "RGLRU.recurrence_width is 0; it must be at least 1"),
        ({"conv_width": 0}, "RGLRU.conv_width is 0; it must be at least 1"),
        ({"method": "chunked"}, "RGLRU.method is 'chunked'; it must be one of auto, sequential, associative"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(InputError, match=re.escape(message)):
        RGLRU(32, rngs=nnx.Rngs(0), **settings)
