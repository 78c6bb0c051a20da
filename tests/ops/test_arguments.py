"""Arguments that are no array where an op needs one, and the scale, a number or an array of one."""

import inspect

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
from seqmodels.ops.delta_rule import METHODS as delta_rule_methods
from seqmodels.ops.diagonal_state_space import diagonal_state_space
from seqmodels.ops.dplr import METHODS as dplr_methods
from seqmodels.ops.linear_attention import METHODS as linear_attention_methods
from seqmodels.ops.long_convolution import long_convolution

ROW = jnp.asarray(np.random.default_rng(0).uniform(0, 1, (2, 3, 1, 4)), jnp.float32)
STATE = jnp.ones((2, 1, 4, 4))
IDS = jnp.ones((2, 3), jnp.int32)
QKV = {"q": ROW, "k": ROW, "v": ROW, "segment_ids": IDS}
DECAYED = {**QKV, "log_decay": -ROW, "initial_state": STATE}
CONVOLVED = {"x": ROW[:, :, 0], "segment_ids": IDS}
FADING = jnp.full((4, 5), -1 + 1j, jnp.complex64)
OPS = {
    linear_attention: {**DECAYED, "initial_state": LinearAttentionState(STATE)},
    delta_rule: {**DECAYED, "beta": ROW[..., 0]},
    dplr: {**DECAYED, "a": ROW, "b": ROW},
    softmax_attention: {
        **QKV,
        **dict.fromkeys(("kv_segment_ids", "q_positions", "kv_positions"), IDS),
        **dict.fromkeys(("sinks", "slopes"), jnp.ones(1)),
    },
    linear_recurrence: {"a": ROW, "x": ROW, "initial_state": STATE[:, 0, :1], "segment_ids": IDS},
    selective_scan: {
        **dict.fromkeys(("x", "dt", "B", "C"), ROW[:, :, 0]),
        "A": -STATE[0, 0],
        "D": jnp.ones(4),
        "initial_state": STATE[:, 0],
        "segment_ids": IDS,
    },
    causal_conv: {
        **CONVOLVED,
        "weight": jnp.ones((2, 4)),
        "bias": jnp.ones(4),
        "initial_state": jnp.ones((2, 1, 4)),
    },
    long_convolution: {**CONVOLVED, "kernel": jnp.ones((3, 4))},
    diagonal_state_space: {
        **CONVOLVED,
        "rate": FADING,
        "C": FADING,
        "initial_state": jnp.zeros((2, 4, 5), jnp.complex64),
    },
}
ARGUMENTS = [(op, name) for op, arguments in OPS.items() for name in arguments]
REQUIRED = [
    (op, name)
    for op, name in ARGUMENTS
    if inspect.signature(op).parameters[name].default is inspect.Parameter.empty
]


def refusal(op, **change) -> str:
    with pytest.raises(ValueError) as error:
        op(**{**OPS[op], **change})
    return str(error.value)


@pytest.mark.parametrize(("op", "name"), REQUIRED)
def test_a_required_array_left_out(op, name):
    assert refusal(op, **{name: None}).startswith(f"{op.__name__}: {name} is None, expected an array [")


@pytest.mark.parametrize(("op", "name"), ARGUMENTS)
def test_a_tuple_around_an_array(op, name):
    """As a function gives it that returns one more thing than was thought."""
    assert refusal(op, **{name: (OPS[op][name],)}).startswith(f"{op.__name__}: {name} is a tuple, expected ")


@pytest.mark.parametrize("batch", [1, 2])
def test_an_array_for_a_state_of_linear_attention(batch):
    """Unpacked along its rows it would be blamed for another shape than it has."""
    given = {name: array[:batch] for name, array in DECAYED.items()}
    assert refusal(linear_attention, **given) == (
        "linear_attention: initial_state is an array, expected LinearAttentionState(kv, key_sum)."
    )


LINEAR = {
    linear_attention: linear_attention_methods,
    delta_rule: delta_rule_methods,
    dplr: dplr_methods,
}


@pytest.mark.parametrize(("op", "method"), [(op, method) for op in LINEAR for method in LINEAR[op]])
def test_a_traced_scale_is_the_number(op, method):
    """A learned one, say; wrong too if a form with a gradient of its own gives it none."""
    given = {**OPS[op], "method": method, "chunk_size": 2}
    if method == "parallel":
        given["log_decay"] = None

    def total(scale):
        return (op(**given, scale=scale)[0] ** 2).sum()

    value, slope = jax.jit(jax.value_and_grad(total))(0.3)
    np.testing.assert_allclose(value, jax.jit(lambda: total(0.3))(), rtol=1e-5)
    np.testing.assert_allclose(slope, 2 * value / 0.3, rtol=1e-5)


@pytest.mark.parametrize("op", [*LINEAR, softmax_attention])
def test_more_than_one_scale(op):
    """Wrong if it is broadcast over some axis in silence."""
    assert refusal(op, scale=jnp.ones(4)) == f"{op.__name__}: scale has shape (4,), expected one number."
