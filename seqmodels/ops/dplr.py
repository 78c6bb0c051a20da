"""A diagonal plus low-rank transition: S_t = (diag(e^{g_t}) + b_t a_t^T) S_{t-1} + k_t v_t^T.

Peng et al. 2025 (RWKV-7). The delta rule is the case a = e^g k, b = -beta k with beta k for the key that
writes. Methods from plainest to fastest: a scan over tokens, and chunks of matrix products.
"""

from functools import partial

import jax
import jax.numpy as jnp

from seqmodels.ops import segments
from seqmodels.ops.arguments import (
    as_arrays,
    require_chunk_size,
    require_rank,
    require_scale,
    require_segment_ids,
    require_shape,
    scaled,
)
from seqmodels.ops.dplr_chunked import chunked
from seqmodels.ops.log_decay import per_token
from seqmodels.ops.methods import resolve
from seqmodels.ops.precision import sum_dtype
from seqmodels.ops.token_scan import scan_tokens

METHODS = ("sequential", "chunked")


def dplr(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    a: jax.Array,
    b: jax.Array,
    *,
    log_decay: jax.Array,
    scale: float | jax.Array | None = None,
    initial_state: jax.Array | None = None,
    segment_ids: jax.Array | None = None,
    method: str = "auto",
    chunk_size: int = 16,
) -> tuple[jax.Array, jax.Array]:
    """o_t = scale q_t^T S_t with S_t = diag(e^{g_t}) S_{t-1} + b_t (a_t^T S_{t-1}) + k_t v_t^T.

    Args:
      q: [B, T, H, K] queries.
      k: [B, T, H, K] keys.
      v: [B, T, H, V] values.
      a: [B, T, H, K], what is read of the state before it decays.
      b: [B, T, H, K], where that is written. The state grows without bound unless diag(e^g) + b a^T is a
        contraction, as for a = -c, b = c * alpha with |c| = 1 and alpha in [0, 1] where g is near 0.
      log_decay: g, [B, T, H, K], all <= 0.
      scale: multiplies q, a number or an array of one, which may be traced; None: K**-0.5.
      initial_state: [B, H, K, V], of the document of the row's first real token; None: zeros.
      segment_ids: [B, T] int32, 0 for padding; None: one document, which continues `initial_state`.
      method: "sequential" steps through time, "chunked" takes products inside chunks, "auto" the fastest.
      chunk_size: tokens a chunk of "chunked"; the next power of 2.

    Returns:
      o [B, T, H, V] in the dtype of v, and the state [B, H, K, V] after the last real token of each row's
      last document. Sums, decays and the state are float32.

    Raises:
      ValueError: for an unknown method and for shapes or settings that do not fit, naming both.
    """
    q, k, v, a, b, log_decay, initial_state, segment_ids = as_arrays(
        q, k, v, a, b, log_decay, initial_state, segment_ids
    )
    method = _check(q, k, v, a, b, log_decay, scale, initial_state, segment_ids, method, chunk_size)
    output, dtype = v.dtype, sum_dtype(v.dtype)
    batch, length, heads, width = k.shape
    q, scale = scaled(q, scale, dtype)
    state = jnp.zeros((batch, heads, width, v.shape[-1])) if initial_state is None else initial_state
    state = state.astype(dtype)
    g = per_token(log_decay, length, dtype)
    order, (q, k, v, a, b, g) = segments.without_padding(segment_ids, q, k, v, a, b, g)
    o, final = {
        "step": _step,
        "sequential": _sequential,
        "chunked": partial(chunked, chunk_size=chunk_size),
    }[method](q, k, v, a, b, g, scale, state, order)
    return o.astype(output), segments.kept_by_padding(segment_ids, state, final)


def _check(q, k, v, a, b, log_decay, scale, initial_state, segment_ids, method, chunk_size):
    """Refuse what does not fit, and return the method to run."""
    op = "dplr"
    require_rank(op, "q", q, "[B, T, H, K]")
    batch, length, heads, width = q.shape
    require_rank(op, "v", v, "[B, T, H, V]")
    require_shape(op, "v", v, "[B, T, H, V]", (batch, length, heads, v.shape[-1]))
    for name, array in {"k": k, "a": a, "b": b, "log_decay": log_decay}.items():
        require_shape(op, name, array, "[B, T, H, K]", q.shape)
    require_segment_ids(op, segment_ids, batch, length)
    require_scale(op, scale)
    require_chunk_size(op, "chunk_size", chunk_size)
    if initial_state is not None:
        shape = (batch, heads, width, v.shape[-1])
        require_shape(op, "initial_state", initial_state, "[B, H, K, V]", shape)
    return resolve(op, method, METHODS, length)


def _token(scale, state, token):
    """One token of [B, H, ...]: the state [B, H, K, V] after it, and what its query reads."""
    g = token[-1]
    q, k, v, a, b = (array.astype(state.dtype) for array in token[:-1])
    read = jnp.einsum("bhk,bhkv->bhv", a, state)
    state = (
        jnp.exp(g)[..., None] * state + b[..., None] * read[:, :, None, :] + k[..., None] * v[:, :, None, :]
    )
    return state, scale * jnp.einsum("bhk,bhkv->bhv", q, state)


def _step(q, k, v, a, b, g, scale, state, order):
    """A row of one token; its document is the one the state belongs to."""
    state, o = _token(scale, state, jax.tree.map(lambda array: array[:, 0], (q, k, v, a, b, g)))
    return o[:, None], state


def _sequential(q, k, v, a, b, g, scale, state, order):
    """A scan over tokens: the equation as it stands."""
    return scan_tokens(partial(_token, scale), state, (q, k, v, a, b, g), order)
