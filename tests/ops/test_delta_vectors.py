"""delta_rule and dplr against outputs and gradients of independent implementations, stored in float64."""

import jax.numpy as jnp
import pytest

from seqmodels.ops import delta_rule, dplr
from tests.ops.test_reference_vectors import check, vector_files

METHODS = ("sequential", "chunked")
HEADS_FIRST = ("delta_rule", "delta_rule_beta2", "dplr", "iplr")


def _tokens_first(*arrays):
    """[B, H, T, ...] as [B, T, H, ...]; None stays None."""
    return (None if array is None else jnp.moveaxis(array, 1, 2) for array in arrays)


def _check_all(refs, op, run, names):
    checked = sum(check(file, run, names) for file in vector_files(refs, op))
    assert checked


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "op",
    [
        "delta_rule",
        "delta_rule_beta2",
        "gated_delta_rule",
        "gated_delta_rule_beta2",
        "kda",
        "kda_gva",
    ],
)
def test_delta_rule(refs, op, method):
    """Wrong here: the error is taken before the decay, beta meets the key twice, or the scale is another."""

    def run(q, k, v, beta, g=None, h0=None):
        if op in HEADS_FIRST:
            q, k, v, beta = _tokens_first(q, k, v, beta)
        # Where there are more value heads than keys, each key serves as many in turn.
        q, k = (jnp.repeat(array, v.shape[2] // q.shape[2], axis=2) for array in (q, k))
        o, state = delta_rule(q, k, v, beta, log_decay=g, initial_state=h0, method=method, chunk_size=16)
        return (jnp.moveaxis(o, 1, 2) if op in HEADS_FIRST else o), {"S": state}

    _check_all(refs, op, run, ("q", "k", "v", "beta", "g", "h0"))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("op", ["dplr", "iplr"])
def test_dplr(refs, op, method):
    """Wrong here: the low-rank term reads the state after its decay, or its two vectors are swapped."""

    def run(q, k, v, alpha, beta, gk=None, h0=None):
        q, k, v, alpha, beta, gk = _tokens_first(q, k, v, alpha, beta, gk)
        gk = jnp.zeros_like(q) if gk is None else gk
        o, state = dplr(q, k, v, alpha, beta, log_decay=gk, initial_state=h0, method=method, chunk_size=16)
        return jnp.moveaxis(o, 1, 2), {"S": state}

    _check_all(refs, op, run, ("q", "k", "v", "alpha", "beta", "gk", "h0"))


@pytest.mark.parametrize("method", METHODS)
def test_rwkv7(refs, method):
    """Wrong here: what RWKV-7 calls a and b, reading and writing, is the other way round with us."""

    def run(r, w, k, v, a, b):
        # Its heads are one axis with their channels, its decay is e^(-e^w), and its scale 1.
        r, w, k, v, a, b = (array.reshape(*array.shape[:2], 2, -1) for array in (r, w, k, v, a, b))
        o, _ = dplr(r, k, v, a, b, log_decay=-jnp.exp(w), scale=1.0, method=method, chunk_size=16)
        return o.reshape(*o.shape[:2], -1), {}

    _check_all(refs, "rwkv7", run, ("r", "w", "k", "v", "a", "b"))
