"""Rows spread over devices: the ops must not fetch other devices' rows."""

import re

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from seqmodels.ops import (
    causal_conv,
    delta_rule,
    dplr,
    linear_attention,
    linear_recurrence,
    selective_scan,
    softmax_attention,
)

ROWS, LENGTH = 8, 32
OPS = {
    "linear_recurrence": lambda x, q, ids: linear_recurrence(x, x, segment_ids=ids)[0],
    "linear_attention": lambda x, q, ids: linear_attention(
        q, q, q, log_decay=-q, segment_ids=ids, chunk_size=8
    )[0],
    "delta_rule": lambda x, q, ids: delta_rule(
        q, q, q, q[..., 0], log_decay=-q, segment_ids=ids, chunk_size=8
    )[0],
    "dplr": lambda x, q, ids: dplr(q, q, q, q, q, log_decay=-q, segment_ids=ids, chunk_size=8)[0],
    "selective_scan": lambda x, q, ids: selective_scan(
        x, x, -jnp.ones((16, 4)), x[..., :4], x[..., 4:8], segment_ids=ids, chunk_size=8
    )[0],
    "softmax_attention parallel": lambda x, q, ids: softmax_attention(q, q, q, segment_ids=ids),
    "softmax_attention blockwise": lambda x, q, ids: softmax_attention(
        q, q, q, segment_ids=ids, method="blockwise", block_size=8
    ),
    "causal_conv": lambda x, q, ids: causal_conv(x, jnp.ones((4, 16)), segment_ids=ids)[0],
}


@pytest.mark.parametrize("name", OPS)
def test_no_device_fetches_the_rows_of_another(name):
    """Wrong here: a gather or a reshape over rows makes every device hold the whole batch."""
    mesh = jax.make_mesh((8,), ("rows",), axis_types=(AxisType.Auto,))
    rows = NamedSharding(mesh, PartitionSpec("rows"))
    x, q, ids = (
        jax.ShapeDtypeStruct(shape, dtype, sharding=rows)
        for shape, dtype in (
            ((ROWS, LENGTH, 16), jnp.float32),
            ((ROWS, LENGTH, 2, 8), jnp.float32),
            ((ROWS, LENGTH), jnp.int32),
        )
    )
    step = jax.jit(jax.grad(lambda x, q, ids: (OPS[name](x, q, ids) ** 2).sum(), argnums=(0, 1)))
    program = step.lower(x, q, ids).compile().as_text()
    assert not re.findall(r"(?:all-gather|all-to-all|collective-permute)(?:-start)?\(", program)
