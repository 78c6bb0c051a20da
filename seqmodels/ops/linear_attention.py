"""Linear attention with optional decay: S_t = diag(e^{g_t}) S_{t-1} + k_t v_t^T, o_t = scale q_t^T S_t.

Katharopoulos et al. 2020 (no decay), Sun et al. 2023 (a decay a head), Dao & Gu 2024 (a head and step),
Yang et al. 2024 (a key channel and step). Methods from plainest to fastest: a scan over tokens, an
associative scan over the pairs (decay, k v^T), and chunks of matrix products; the quadratic form is one chunk
as long as the row.
"""

from typing import NamedTuple

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
from seqmodels.ops.linear_attention_chunked import chunked, parallel
from seqmodels.ops.log_decay import per_token, require_log_decay
from seqmodels.ops.methods import resolve
from seqmodels.ops.precision import sum_dtype
from seqmodels.ops.recurrence import linear_recurrence
from seqmodels.ops.token_scan import scan_tokens

METHODS = ("sequential", "associative", "chunked", "parallel")

# Where q.z is below this, a normalised output and its gradients are 0: features such as relu's reach 0 / 0.
VANISHING = 1e-6


class LinearAttentionState(NamedTuple):
    """kv: [B, H, K, V] float32, the sum of k v^T; key_sum: [B, H, K] float32, the sum of k, or None."""

    kv: jax.Array
    key_sum: jax.Array | None = None


def linear_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    *,
    log_decay: jax.Array | None = None,
    scale: float | jax.Array | None = None,
    normalize: bool = False,
    initial_state: LinearAttentionState | None = None,
    segment_ids: jax.Array | None = None,
    method: str = "auto",
    chunk_size: int = 64,
) -> tuple[jax.Array, LinearAttentionState]:
    """o_t = scale q_t^T S_t with S_t = diag(e^{g_t}) S_{t-1} + k_t v_t^T, S empty before every document.

    Args:
      q: [B, T, H, K] queries, after their feature map; [B, T, 1, K] where all heads share them and the keys.
      k: like q, keys, after their feature map.
      v: [B, T, H, V] values.
      log_decay: g, None | [H] | [B, T, H] | [B, T, H, K], all <= 0.
      scale: multiplies q, a number or an array of one, which may be traced; None: K**-0.5.
      normalize: divide by q_t^T z_t, z the sum of keys, decayed as S is; scale cancels, and where
        q_t^T z_t < 1e-6 the output and its gradients are 0.
      initial_state: of the document of the row's first real token; None: zeros.
      segment_ids: [B, T] int32, 0 for padding; None: one document, which continues `initial_state`.
      method: "sequential" steps through time, "associative" holds [B, T, H, K, V], "chunked" takes products
        inside chunks, "parallel" holds [B, H, T, T] (not for a decay per key channel), "auto" the fastest.
      chunk_size: tokens a chunk of "chunked"; the next power of 2 where the decay is per key channel.

    Returns:
      o [B, T, H, V] in the dtype of v, and the state after the last real token of each row's last document.
      Sums, decays and the state are float32.

    Raises:
      ValueError: for an unknown method and for shapes or settings that do not fit, naming both.
    """
    q, k, v, log_decay, initial_state, segment_ids = as_arrays(q, k, v, log_decay, initial_state, segment_ids)
    method = _check(q, k, v, log_decay, scale, normalize, initial_state, segment_ids, method, chunk_size)
    output, dtype = v.dtype, sum_dtype(v.dtype)
    batch, length, heads, width = *v.shape[:3], k.shape[3]
    q, scale = scaled(q, 1.0 if normalize else scale, dtype)
    if normalize:
        # The sum of keys is one more value channel that always holds 1.
        v = jnp.concatenate([v, jnp.ones_like(v[..., :1])], axis=-1)
    state = _joined(initial_state, normalize, (batch, heads, width, v.shape[-1]), dtype)

    if method not in ("chunked", "parallel") or log_decay is None or log_decay.ndim == 4:
        # Under a decay a head, heads that share q and k share their products too: about half the memory.
        q, k = (jnp.broadcast_to(array, (batch, length, heads, width)) for array in (q, k))
    g = per_token(log_decay, length, dtype)
    order, (q, k, v, g) = segments.without_padding(segment_ids, q, k, v, g)
    o, final = {
        "step": _step,
        "sequential": _sequential,
        "associative": _associative,
        "chunked": lambda *arguments: chunked(*arguments, chunk_size=chunk_size),
        "parallel": parallel,
    }[method](q, k, v, g, scale, state, order)
    final = segments.kept_by_padding(segment_ids, state, final)
    if not normalize:
        return o.astype(output), LinearAttentionState(final)
    return _normalized(o).astype(output), LinearAttentionState(final[..., :-1], final[..., -1])


def _check(q, k, v, log_decay, scale, normalize, initial_state, segment_ids, method, chunk_size):
    """Refuse what does not fit, and return the method to run."""
    op = "linear_attention"
    require_rank(op, "q", q, "[B, T, H, K]")
    require_shape(op, "k", k, "[B, T, H, K]", q.shape)
    require_rank(op, "v", v, "[B, T, H, V]")
    batch, length, shared, width = q.shape
    heads = v.shape[2] if shared == 1 else shared
    require_shape(op, "v", v, "[B, T, H, V]", (batch, length, heads, v.shape[-1]))
    require_segment_ids(op, segment_ids, batch, length)
    require_scale(op, scale)
    require_chunk_size(op, "chunk_size", chunk_size)
    require_log_decay(op, log_decay, (batch, length, heads, width))
    if initial_state is not None:
        if not isinstance(initial_state, LinearAttentionState):
            got = "an array" if isinstance(initial_state, jax.Array) else f"a {type(initial_state).__name__}"
            raise ValueError(f"{op}: initial_state is {got}, expected LinearAttentionState(kv, key_sum).")
        kv, key_sum = initial_state
        require_shape(op, "initial_state.kv", kv, "[B, H, K, V]", (batch, heads, width, v.shape[-1]))
        if (key_sum is not None) != normalize:
            given = "None" if key_sum is None else "given"
            raise ValueError(f"{op}: initial_state.key_sum is {given}, but normalize is {normalize}.")
        if normalize:
            require_shape(op, "initial_state.key_sum", key_sum, "[B, H, K]", (batch, heads, width))
    if method == "parallel" and log_decay is not None and log_decay.ndim == 4:
        raise ValueError(f"{op}: a decay per key channel, [B, T, H, K], has no parallel form; use 'chunked'.")
    return resolve(op, method, METHODS, length)


def _joined(initial_state, normalize, shape, dtype):
    """The state [B, H, K, V], or [B, H, K, V + 1] with the sum of keys as its last column."""
    if initial_state is None:
        return jnp.zeros(shape, dtype)
    kv, key_sum = initial_state
    state = jnp.concatenate([kv, key_sum[..., None]], axis=-1) if normalize else kv
    return state.astype(dtype)


def _normalized(o):
    """The first channels over the last, selected before the division so that 0 / 0 leaves no NaN gradient."""
    total = o[..., -1:]
    vanishing = total < VANISHING
    return jnp.where(vanishing, 0, o[..., :-1] / jnp.where(vanishing, 1, total))


def _update(state, k, v, g):
    """One token: state [B, H, K, V], k [B, H, K], v [B, H, V], g [1 or B, H, 1 or K] or None."""
    decayed = state if g is None else jnp.exp(g)[..., None] * state
    return decayed + k.astype(state.dtype)[..., None] * v.astype(state.dtype)[:, :, None, :]


def _read(state, q, scale):
    return scale * jnp.einsum("bhk,bhkv->bhv", q.astype(state.dtype), state)


def _step(q, k, v, g, scale, state, order):
    """A row of one token; its document is the one the state belongs to."""
    state = _update(state, k[:, 0], v[:, 0], None if g is None else g[:, 0])
    return _read(state, q[:, 0], scale)[:, None], state


def _sequential(q, k, v, g, scale, state, order):
    """A scan over tokens: the equation as it stands."""

    def body(state, token):
        q, k, v, g = token
        state = _update(state, k, v, g)
        return state, _read(state, q, scale)

    return scan_tokens(body, state, (q, k, v, g), order)


def _associative(q, k, v, g, scale, state, order):
    """All states at once, [B, T, H, K, V], by an associative scan over the pairs (decay, k v^T)."""
    decay = jnp.ones((1, 1, 1, 1, 1), state.dtype) if g is None else jnp.exp(g)[..., None]
    update = k.astype(state.dtype)[..., None] * v.astype(state.dtype)[:, :, :, None, :]
    ids = None if order is None else order + 1
    states, final = linear_recurrence(
        decay, update, initial_state=state, segment_ids=ids, method="associative"
    )
    return scale * jnp.einsum("bthk,bthkv->bthv", q.astype(state.dtype), states), final
