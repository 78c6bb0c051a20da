"""The loss in chunks is the loss, and never holds all logits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqmodels.loss import token_nll

BATCH, LENGTH, WIDTH, VOCABULARY = 2, 13, 8, 50


class Head:
    """A plain matrix as a model's head."""

    def __init__(self, kernel):
        self.kernel = kernel

    def head(self, x):
        return x @ self.kernel


KERNEL = jnp.asarray(np.random.default_rng(0).normal(size=(WIDTH, VOCABULARY)), jnp.float32)
X = jnp.asarray(np.random.default_rng(1).normal(size=(BATCH, LENGTH, WIDTH)), jnp.float32)
TARGETS = jnp.asarray(np.random.default_rng(2).integers(0, VOCABULARY, (BATCH, LENGTH)), jnp.int32)


def total(x, kernel, chunk):
    weights = jnp.arange(BATCH * LENGTH, dtype=jnp.float32).reshape(BATCH, LENGTH)
    return (weights * token_nll(Head(kernel), x, TARGETS, chunk=chunk)).sum()


@pytest.mark.parametrize("chunk", [None, 1, 4, 13, 100])
def test_chunks_change_nothing(chunk):
    """Values and gradients against log softmax in float64; 4 leaves a tail of one token."""
    logits = np.asarray(X, np.float64) @ np.asarray(KERNEL, np.float64)
    wanted = (
        np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, np.asarray(TARGETS)[..., None], 2)[..., 0]
    )
    got = token_nll(Head(KERNEL), X, TARGETS, chunk=chunk)
    assert got.dtype == jnp.float32
    np.testing.assert_allclose(got, wanted, rtol=1e-5)
    probability = (
        np.exp(logits) / np.exp(logits).sum(-1, keepdims=True) - np.eye(VOCABULARY)[np.asarray(TARGETS)]
    )
    probability *= np.arange(BATCH * LENGTH).reshape(BATCH, LENGTH, 1)
    of_x, of_kernel = jax.grad(total, (0, 1))(X, KERNEL, chunk)
    np.testing.assert_allclose(of_x, probability @ np.asarray(KERNEL, np.float64).T, rtol=1e-4, atol=1e-5)
    wanted = np.einsum("btd,btv->dv", np.asarray(X, np.float64), probability)
    np.testing.assert_allclose(of_kernel, wanted, rtol=1e-4, atol=1e-4)


def test_a_target_that_is_no_id_is_nan():
    """-100 or an id past the vocabulary must not be scored as some other token."""
    losses = token_nll(Head(KERNEL), X, TARGETS.at[0, 3].set(-100).at[1, 2].set(VOCABULARY))
    assert jnp.isnan(losses[0, 3])
    assert jnp.isnan(losses[1, 2])
    assert int(jnp.isnan(losses).sum()) == 2


def test_large_logits_are_finite():
    losses = token_nll(Head(KERNEL * 1e4), X, TARGETS)
    assert jnp.isfinite(losses).all()


def test_memory_is_that_of_a_chunk():
    """Neither pass holds [B, T, vocabulary]."""
    length, vocabulary = 512, 4096
    x, targets = jnp.zeros((BATCH, length, WIDTH)), jnp.zeros((BATCH, length), jnp.int32)

    def loss(x, kernel, chunk):
        return token_nll(Head(kernel), x, targets, chunk=chunk).sum()

    def temporaries(chunk):
        step = jax.jit(jax.grad(loss, (0, 1)), static_argnums=2)
        return (
            step.lower(x, jnp.zeros((WIDTH, vocabulary)), chunk)
            .compile()
            .memory_analysis()
            .temp_size_in_bytes
        )

    whole = BATCH * length * vocabulary * 4
    assert temporaries(512) >= whole
    assert temporaries(32) < whole / 4
