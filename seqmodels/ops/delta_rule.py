"""The delta rule with optional decay: each token corrects what its key reads, S_t = S + beta k (v - k^T S)^T.

Schlag et al. 2021 and Yang et al. 2024 (no decay), Yang et al. 2025 (a decay a head and step, which acts
before the error is taken), Kimi team 2025 (a decay a key channel and step). Methods from plainest to fastest:
a scan over tokens, and chunks of matrix products.
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
from seqmodels.ops.delta_rule_chunked import chunked
from seqmodels.ops.log_decay import per_token, require_log_decay
from seqmodels.ops.methods import resolve
from seqmodels.ops.precision import sum_dtype
from seqmodels.ops.token_scan import scan_tokens

METHODS = ("sequential", "chunked")


def delta_rule(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    beta: jax.Array,
    *,
    log_decay: jax.Array | None = None,
    scale: float | jax.Array | None = None,
    initial_state: jax.Array | None = None,
    segment_ids: jax.Array | None = None,
    method: str = "auto",
    chunk_size: int = 32,
) -> tuple[jax.Array, jax.Array]:
    """o_t = scale q_t^T S_t with S' = diag(e^{g_t}) S_{t-1} and S_t = S' + beta_t k_t (v_t - k_t^T S')^T.

    Args:
      q: [B, T, H, K] queries.
      k: [B, T, H, K] keys, of unit norm: the state grows without bound where beta |k|^2 > 2.
      v: [B, T, H, V] values.
      beta: [B, T, H] in [0, 2], the share of the error that is corrected.
      log_decay: g, None | [H] | [B, T, H] | [B, T, H, K], all <= 0.
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
    q, k, v, beta, log_decay, initial_state, segment_ids = as_arrays(
        q, k, v, beta, log_decay, initial_state, segment_ids
    )
    method = _check(q, k, v, beta, log_decay, scale, initial_state, segment_ids, method, chunk_size)
    output, dtype = v.dtype, sum_dtype(v.dtype)
    batch, length, heads, width = k.shape
    q, scale = scaled(q, scale, dtype)
    state = jnp.zeros((batch, heads, width, v.shape[-1])) if initial_state is None else initial_state
    state = state.astype(dtype)
    g, beta = per_token(log_decay, length, dtype), beta.astype(dtype)
    order, (q, k, v, beta, g) = segments.without_padding(segment_ids, q, k, v, beta, g)
    o, final = {
        "step": _step,
        "sequential": _sequential,
        "chunked": partial(chunked, chunk_size=chunk_size),
    }[method](q, k, v, beta, g, scale, state, order)
    return o.astype(output), segments.kept_by_padding(segment_ids, state, final)


def _check(q, k, v, beta, log_decay, scale, initial_state, segment_ids, method, chunk_size):
    """Refuse what does not fit, and return the method to run."""
    op = "delta_rule"
    require_rank(op, "q", q, "[B, T, H, K]")
    batch, length, heads, width = q.shape
    require_shape(op, "k", k, "[B, T, H, K]", q.shape)
    require_rank(op, "v", v, "[B, T, H, V]")
    require_shape(op, "v", v, "[B, T, H, V]", (batch, length, heads, v.shape[-1]))
    require_shape(op, "beta", beta, "[B, T, H]", q.shape[:3])
    require_log_decay(op, log_decay, q.shape)
    require_segment_ids(op, segment_ids, batch, length)
    require_scale(op, scale)
    require_chunk_size(op, "chunk_size", chunk_size)
    if initial_state is not None:
        shape = (batch, heads, width, v.shape[-1])
        require_shape(op, "initial_state", initial_state, "[B, H, K, V]", shape)
    return resolve(op, method, METHODS, length)


def _token(scale, state, token):
    """One token of [B, H, ...]: the state [B, H, K, V] after it, and what its query reads."""
    q, k, v, beta, g = token
    q, k, v = (array.astype(state.dtype) for array in (q, k, v))
    decayed = state if g is None else jnp.exp(g)[..., None] * state
    error = beta[..., None] * (v - jnp.einsum("bhk,bhkv->bhv", k, decayed))
    state = decayed + k[..., None] * error[:, :, None, :]
    return state, scale * jnp.einsum("bhk,bhkv->bhv", q, state)


def _step(q, k, v, beta, g, scale, state, order):
    """A row of one token; its document is the one the state belongs to."""
    state, o = _token(scale, state, jax.tree.map(lambda array: array[:, 0], (q, k, v, beta, g)))
    return o[:, None], state


def _sequential(q, k, v, beta, g, scale, state, order):
    """A scan over tokens: the equation as it stands."""
    return scan_tokens(partial(_token, scale), state, (q, k, v, beta, g), order)
