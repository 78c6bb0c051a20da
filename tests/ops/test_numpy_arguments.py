"""numpy arrays, float64 as numpy makes them: taken as the JAX arrays of the same numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqmodels.ops import (
    LinearAttentionState,
    causal_conv,
    delta_rule,
    dplr,
    linear_attention,
    linear_recurrence,
    selective_scan,
    softmax_attention,
)

X = np.full((1, 3, 2), 0.5)
CALLS = {
    "linear_recurrence": (
        lambda method, x: linear_recurrence(x, x, initial_state=x[:, 0], method=method),
        ("sequential", "associative"),
    ),
    "linear_attention": (
        lambda method, x: linear_attention(
            x[:, :, None],
            x[:, :, None],
            x[:, :, None],
            log_decay=-x[:, :, :1],
            initial_state=LinearAttentionState(x[:, None, :2]),
            method=method,
        ),
        ("sequential", "associative", "chunked", "parallel"),
    ),
    "delta_rule": (
        lambda method, x: delta_rule(
            *(x[:, :, None],) * 3,
            x[:, :, :1],
            log_decay=-x[:, :, :1],
            initial_state=x[:, None, :2],
            method=method,
        ),
        ("sequential", "chunked"),
    ),
    "dplr": (
        lambda method, x: dplr(
            *(x[:, :, None],) * 5, log_decay=-x[:, :, None], initial_state=x[:, None, :2], method=method
        ),
        ("sequential", "chunked"),
    ),
    "selective_scan": (
        lambda method, x: selective_scan(
            x, x, -x[0, :2], x, x, x[0, 0], initial_state=x[:, :2], method=method
        ),
        ("sequential", "associative", "chunked"),
    ),
    "softmax_attention": (
        lambda method, x: softmax_attention(
            x[:, :, None], x[:, :, None], x[:, :, None], sinks=x[0, 0, :1], method=method
        ),
        ("parallel", "blockwise"),
    ),
    "causal_conv": (
        lambda method, x: causal_conv(x, x[0, :2], x[0, 0], initial_state=x[:, :1]),
        (None,),
    ),
}


@pytest.mark.parametrize(("name", "method"), [(name, m) for name in CALLS for m in CALLS[name][1]])
def test_numpy_and_jax_arrays_give_the_same(name, method):
    """Wrong here: a form that calls a method which only JAX arrays have, or a float64 JAX warns about."""
    call = CALLS[name][0]
    given = call(method, X)
    wanted = call(method, jnp.asarray(X))
    for ours, reference in zip(jax.tree.leaves(given), jax.tree.leaves(wanted), strict=True):
        assert isinstance(ours, jax.Array) and ours.dtype == reference.dtype
        np.testing.assert_array_equal(ours, reference)
