"""Causal depthwise convolution: y_t = bias + sum_j weight[W-1-j] x_{t-j}, within a document."""

import jax
import jax.numpy as jnp

from seqmodels.ops import segments
from seqmodels.ops.arguments import as_arrays, require_array, require_rank, require_segment_ids, require_shape
from seqmodels.ops.packing import packing, permuted
from seqmodels.ops.precision import sum_dtype


def causal_conv(
    x: jax.Array,
    weight: jax.Array,
    bias: jax.Array | None = None,
    *,
    initial_state: jax.Array | None = None,
    segment_ids: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array]:
    """Each token's weighted sum of itself and the W - 1 real tokens of its document before it.

    Args:
      x: [B, T, D] inputs.
      weight: [W, D]; weight[-1] multiplies the current token.
      bias: [D]; None: none.
      initial_state: [B, W-1, D], oldest first: the inputs before the row, of the document of its first real
        token; zeros where that document had fewer. None: zeros.
      segment_ids: [B, T] int32, 0 for padding, which the window looks through; None: one document.

    Returns:
      y [B, T, D] in the dtype of x, summed in float32, and the last W - 1 inputs [B, W-1, D] of each row's
      last document in the dtype of initial_state (of x, where that is None).

    Raises:
      ValueError: for shapes that do not fit, naming both.
    """
    x, weight, bias, initial_state, segment_ids = as_arrays(x, weight, bias, initial_state, segment_ids)
    batch, length, width = _check(x, weight, bias, initial_state, segment_ids)
    taps = weight.shape[0]
    state = jnp.zeros((batch, taps - 1, width), x.dtype) if initial_state is None else initial_state
    dtype = sum_dtype(x.dtype, state.dtype)
    if segment_ids is None:
        window = jnp.concatenate([state.astype(dtype), x.astype(dtype)], axis=1)
        y = sum(weight[tap].astype(dtype)[None, None] * window[:, tap : tap + length] for tap in range(taps))
        y = y if bias is None else y + bias.astype(dtype)[None, None]
        return y.astype(x.dtype), window[:, length:].astype(state.dtype)

    real = segment_ids != 0
    front, back = packing(real)
    packed = permuted(jnp.where(real[..., None], x, 0), front, back)
    order = jnp.take_along_axis(segments.ordinals(segment_ids), front, axis=1)
    window = jnp.concatenate([state.astype(dtype), packed.astype(dtype)], axis=1)
    # What came before the row belongs to its first document, whose ordinal is 0.
    documents = jnp.pad(order, ((0, 0), (taps - 1, 0)))

    def term(tap):
        same = (documents[:, tap : tap + length] == order)[..., None]
        return weight[tap].astype(dtype)[None, None] * jnp.where(same, window[:, tap : tap + length], 0)

    y = sum(term(tap) for tap in range(taps))
    y = y if bias is None else y + bias.astype(dtype)[None, None]
    y = permuted(y.astype(x.dtype), back, front)

    last = real.sum(axis=1)[:, None] + jnp.arange(taps - 1)[None]
    same = jnp.take_along_axis(documents, last, axis=1) == segments.ordinals(segment_ids)[:, -1:]
    final = jnp.where(same[..., None], jnp.take_along_axis(window, last[..., None], axis=1), 0)
    return y, final.astype(state.dtype)


def _check(x, weight, bias, initial_state, segment_ids):
    op = "causal_conv"
    require_rank(op, "x", x, "[B, T, D]")
    batch, length, width = x.shape
    require_array(op, "weight", weight, "[W, D]")
    if weight.ndim != 2 or weight.shape[0] < 1 or weight.shape[1] != width:
        raise ValueError(f"{op}: weight has shape {weight.shape}, expected [W, D], W >= 1 and D = {width}.")
    if bias is not None:
        require_shape(op, "bias", bias, "[D]", (width,))
    if initial_state is not None:
        require_shape(op, "initial_state", initial_state, "[B, W-1, D]", (batch, weight.shape[0] - 1, width))
    require_segment_ids(op, segment_ids, batch, length)
    return batch, length, width
