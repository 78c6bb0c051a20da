"""Softmax attention, full, windowed, grouped, packed and against a cache.

    o_i = sum_j softmax_j(logit_ij) v_j,   logit_ij = softcap(scale q_i . k_j) - slope (pos_i - pos_j),

where j runs over the keys that query i sees. One rule says which: their ids are equal and not 0, and
0 <= pos_i - pos_j < window. Padding has id 0, so it neither sees nor is seen; what sees nothing reads zeros.
"""

import jax
import jax.numpy as jnp

from seqmodels.ops import segments
from seqmodels.ops.methods import resolve

METHODS = ("parallel", "blockwise")


def softmax_attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    *,
    segment_ids: jax.Array | None = None,
    kv_segment_ids: jax.Array | None = None,
    q_positions: jax.Array | None = None,
    kv_positions: jax.Array | None = None,
    window: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: jax.Array | None = None,
    slopes: jax.Array | None = None,
    method: str = "auto",
    block_size: int = 128,
) -> jax.Array:
    """Attends from queries to the keys of the same document that lie at or before them.

    Args:
      q: [B, T, H, K] queries; query head j reads key/value head j // (H / G).
      k: [B, S, G, K] keys.
      v: [B, S, G, V] values.
      segment_ids: [B, T] int32 document of each query, 0 for padding; None: one document.
      kv_segment_ids: [B, S] int32 document of each key; None: those of the queries, and S = T.
      q_positions: [B, T] int32; None: the count of real tokens in the document, from 0.
      kv_positions: [B, S] int32; None: those of the queries, or where `kv_segment_ids` is given the count of
        real tokens in its documents.
      window: how many positions a query sees, its own included; None: no bound.
      scale: factor of the logits, `K**-0.5` by default.
      softcap: logits become softcap * tanh(logits / softcap); None: they stay.
      sinks: [H] logits that join the softmax's denominator alone.
      slopes: [H] ALiBi slopes: slope * (pos_i - pos_j) is taken off the logits (Press et al. 2022).
      method: "parallel" holds the [T, S] logits, "blockwise" never does, "auto" takes the faster one.
      block_size: keys and queries a block of "blockwise".

    Returns:
      [B, T, H, V] in the dtype of v. Logits and softmax are float32.

    Raises:
      ValueError: for an unknown method and for shapes or settings that do not fit, naming both.
    """
    _check(q, k, v, segment_ids, kv_segment_ids, q_positions, kv_positions, sinks, slopes)
    if window is not None and window < 1:
        raise ValueError(f"softmax_attention: window is {window}; it counts the query itself: at least 1.")
    if softcap is not None and not softcap > 0:
        raise ValueError(f"softmax_attention: softcap is {softcap}; it must be positive, or None.")
    method = resolve("softmax_attention", method, METHODS, q.shape[1])
    if scale is None:
        scale = q.shape[-1] ** -0.5
    q_place, kv_place = _places(q.shape[1], segment_ids, kv_segment_ids, q_positions, kv_positions)
    o = _parallel(q, k, v, q_place, kv_place, window, scale, softcap, sinks, slopes)
    return o.astype(v.dtype)


def _parallel(q, k, v, q_place, kv_place, window, scale, softcap, sinks, slopes):
    """Every logit at once: [B, G, R, T, S], with R = H / G query heads to a key/value head."""
    batch, length, heads, _ = q.shape
    groups = k.shape[2]
    q = (q * jnp.asarray(scale, q.dtype)).reshape(batch, length, groups, heads // groups, -1)
    logits = jnp.einsum("btgrk,bsgk->bgrts", q, k, preferred_element_type=jnp.float32)
    if softcap is not None:
        logits = softcap * jnp.tanh(logits / softcap)
    distance = q_place[1][:, :, None] - kv_place[1][:, None, :]
    if slopes is not None:
        slopes = slopes.astype(jnp.float32).reshape(1, groups, -1, 1, 1)
        logits = logits - slopes * distance[:, None, None].astype(jnp.float32)
    seen = (q_place[0][:, :, None] == kv_place[0][:, None, :]) & (q_place[0][:, :, None] != 0)
    seen &= distance >= 0
    if window is not None:
        seen &= distance < window
    logits = jnp.where(seen[:, None, None], logits, -jnp.inf)
    top = jax.lax.stop_gradient(logits.max(axis=-1, keepdims=True))
    if sinks is not None:
        sinks = sinks.astype(jnp.float32).reshape(1, groups, -1, 1, 1)
        top = jnp.maximum(top, jax.lax.stop_gradient(sinks))
    # Where nothing is seen the maximum is -inf; -inf - -inf would be NaN, forward and backward.
    top = jnp.where(top == -jnp.inf, 0.0, top)
    weights = jnp.exp(logits - top)
    total = weights.sum(axis=-1, keepdims=True)
    if sinks is not None:
        total = total + jnp.exp(sinks - top)
    weights = weights / jnp.where(total == 0, 1.0, total)
    o = jnp.einsum("bgrts,bsgv->btgrv", weights.astype(v.dtype), v, preferred_element_type=jnp.float32)
    return o.reshape(batch, length, heads, -1)


def _places(length, segment_ids, kv_segment_ids, q_positions, kv_positions):
    """((ids, positions) of the queries [B or 1, T], the same of the keys [B or 1, S])."""
    ids = jnp.ones((1, length), jnp.int32) if segment_ids is None else segment_ids
    if q_positions is None:
        q_positions = segments.positions(ids)
    if kv_segment_ids is None:
        kv_ids, default = ids, q_positions
    else:
        kv_ids, default = kv_segment_ids, None
    if kv_positions is None:
        kv_positions = segments.positions(kv_ids) if default is None else default
    return (ids, q_positions), (kv_ids, kv_positions)


def _check(q, k, v, segment_ids, kv_segment_ids, q_positions, kv_positions, sinks, slopes):
    """Raises ValueError for the first array whose shape does not fit the others."""

    def refuse(name, array, wanted):
        raise ValueError(f"softmax_attention: {name} has shape {list(array.shape)}; it must be {wanted}.")

    for name, array in (("q", q), ("k", k), ("v", v)):
        if array.ndim != 4:
            refuse(name, array, "[batch, time, heads, head dim]")
    batch, length, heads, key_dim = q.shape
    source, groups = k.shape[1:3]
    if k.shape[0] != batch or k.shape[3] != key_dim:
        refuse("k", k, f"[{batch}, S, G, {key_dim}], as q is {list(q.shape)}")
    if v.shape[:3] != k.shape[:3]:
        refuse("v", v, f"[{batch}, {source}, {groups}, V], as k is {list(k.shape)}")
    if groups == 0 or heads % groups:
        raise ValueError(
            f"softmax_attention: q has {heads} heads and k has {groups}; the first must be a multiple of the "
            "second."
        )
    if kv_segment_ids is None and source != length:
        raise ValueError(
            f"softmax_attention: q has {length} tokens and k has {source}; these are equal unless kv_segment_ids "
            "is given."
        )
    for name, array, shape in (
        ("segment_ids", segment_ids, (batch, length)),
        ("q_positions", q_positions, (batch, length)),
        ("kv_segment_ids", kv_segment_ids, (batch, source)),
        ("kv_positions", kv_positions, (batch, source)),
        ("sinks", sinks, (heads,)),
        ("slopes", slopes, (heads,)),
    ):
        if array is not None and array.shape != shape:
            refuse(name, array, list(shape))
