"""mLSTM's gates, its stabiliser and the scale that its memory is kept in."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from seqmodels.errors import InputError
from seqmodels.mixers import MLSTM
from seqmodels.mixers.mlstm import Memory, mlstm, stabiliser
from tests.mixers.subjects import agree, normal, relative_rms


def test_gate_biases():
    """Input gates start all but shut, forget gates open, the later heads longer."""
    biases = MLSTM(64, heads=4, rngs=nnx.Rngs(0)).gate_bias[...]
    np.testing.assert_allclose(biases, [-10, -10, -10, -10, 3, 4, 5, 6])


def test_the_stabiliser_by_hand():
    """A maximum that decays, is overtaken, stays at padding and starts from 0 in a new document."""
    log_forget = jnp.asarray([-1.0, -2.0, -9.0, -1.0, -3.0])
    i = jnp.asarray([-10.0, 5.0, 99.0, 1.0, -2.0])
    ids = jnp.asarray([[4, 4, 0, 4, 7]])
    before = jnp.asarray([[3.0]])
    m = jax.jit(stabiliser)(log_forget[None, :, None], i[None, :, None], before, ids)
    np.testing.assert_array_equal(m[0, :, 0], [2, 5, 5, 4, -2])
    np.testing.assert_array_equal(stabiliser(log_forget[None, :1, None], i[None, :1, None], before, None), 2)


def published(q, k, v, i, f):
    """The equations with C, n and m as they stand, in float64; the final (C, n, m) with h."""
    q, k, v, i, f = (np.asarray(y, np.float64) for y in (q, k, v, i, f))
    q = q * q.shape[-1] ** -0.5
    C, n, m = np.zeros((k.shape[-1], v.shape[-1])), np.zeros(k.shape[-1]), 0.0
    h = []
    for t in range(len(q)):
        log_forget = -np.logaddexp(0, -f[t])
        after = max(log_forget + m, i[t])
        forget, write = np.exp(log_forget + m - after), np.exp(i[t] - after)
        C, n, m = forget * C + write * np.outer(k[t], v[t]), forget * n + write * k[t], after
        h.append(C.T @ q[t] / (max(abs(n @ q[t]), np.exp(-m)) + 1e-6))
    return np.array(h), C, n, m


@functools.partial(jax.jit, static_argnames="chunk_size")
def run(q, k, v, i, f, chunk_size=64):
    """One call from the empty memory."""
    empty = Memory(*(jnp.zeros(shape) for shape in ((*q.shape[::2], 4, 4), (*q.shape[::2], 4), q.shape[::2])))
    return mlstm(q, k, v, i, f, empty, segment_ids=None, method="chunked", chunk_size=chunk_size)


def test_gates_close_to_one_for_long():
    """1,000 forget gates of 1 − 3e-7 behind an input gate of e^15: differences of m would round them to 1,
    and the first token would weigh 3e-4 too much.
    """
    length = 1000
    q, k, v = np.abs(normal(length, 4)), np.abs(normal(length, 4, seed=1)), normal(length, 4, seed=2)
    i, f = np.full(length, -15.0, np.float32), np.full(length, 15.0, np.float32)
    i[0] = 15.0
    h, memory = run(*(y[None, :, None] for y in (q, k, v, i, f)))
    wanted, C, n, m = published(q, k, v, i, f)
    scale = np.exp(m - 15)
    assert relative_rms(h[0, :, 0], wanted) <= 2e-6
    assert relative_rms(memory.C[0, 0], C * scale) <= 2e-6
    assert relative_rms(memory.n[0, 0], n * scale) <= 2e-6
    agree(memory.m, [[m]])


def test_strong_and_shut_gates_stay_finite():
    """Forget gates of σ(−15) and input gates from e^−15 to e^15, forward and backward, in any order."""
    q, k, v = (normal(2, 70, 2, 4, seed=seed) for seed in range(3))
    signs = np.random.default_rng(0).choice([-15.0, 0.0, 15.0], (2, 2, 70, 2)).astype(np.float32)
    tokens = q, k, v, *signs

    @jax.jit
    def both(*tokens):
        h, pull = jax.vjp(lambda *tokens: run(*tokens, chunk_size=16)[0], *tokens)
        return h, pull(jnp.ones_like(h))

    h, gradients = both(*tokens)
    assert all(jnp.isfinite(y).all() for y in (h, *gradients))
    for row in range(2):
        for head in range(2):
            wanted = published(*(y[row, :, head] for y in tokens))[0]
            assert relative_rms(h[row, :, head], wanted) <= 1e-5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 3}, "MLSTM.heads is 3, which does not divide the width, 32"),
        ({"conv_width": 0}, "MLSTM.conv_width is 0; it must be at least 1"),
        ({"method": "fft"}, "MLSTM.method is 'fft'; it must be one of auto, sequential"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(InputError, match=re.escape(message)):
        MLSTM(32, rngs=nnx.Rngs(0), **settings)
