"""Softmax attention, full, windowed, grouped, packed and against a cache.

    o_i = sum_j softmax_j(logit_ij) v_j,   logit_ij = softcap(scale q_i . k_j) - slope (pos_i - pos_j),

where j runs over the keys that query i sees. One rule says which: their ids are equal and not 0, and
0 <= pos_i - pos_j < window. Padding has id 0, so it neither sees nor is seen; what sees nothing reads zeros.
"""

import functools

import jax
import jax.numpy as jnp

from seqmodels.ops import segments
from seqmodels.ops.arguments import as_arrays, require_chunk_size, require_rank, require_scale, require_shape
from seqmodels.ops.attention_blockwise import blockwise
from seqmodels.ops.attention_logits import Places, Rule, across, along, logits
from seqmodels.ops.methods import resolve
from seqmodels.ops.precision import sum_dtype

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
    scale: float | jax.Array | None = None,
    softcap: float | None = None,
    sinks: jax.Array | None = None,
    slopes: jax.Array | None = None,
    method: str = "auto",
    block_size: int = 128,
) -> jax.Array:
    """Attends from queries to the keys of the same document that lie at or before them.

    Args:
      q: [B, T, H, K] queries; query head j reads key/value head j // (H / G).
      k: [B, S, G, K] keys; a cache that lies as [B, G, S, K] and comes with swapped axes is read in place.
      v: [B, S, G, V] values; the same holds.
      segment_ids: [B, T] int32 document of each query, 0 for padding; None: one document.
      kv_segment_ids: [B, S] int32 document of each key; None: those of the queries, and S = T.
      q_positions: [B, T] int32; None: the count of real tokens in the document, from 0.
      kv_positions: [B, S] int32; None: those of the queries, or where `kv_segment_ids` is given the count of
        real tokens in its documents.
      window: how many positions a query sees, its own included; None: no bound.
      scale: factor of the logits, a number or an array of one, which may be traced; None: K**-0.5.
      softcap: logits become softcap * tanh(logits / softcap); None: they stay.
      sinks: [H] logits that join the softmax's denominator alone.
      slopes: [H] ALiBi slopes: slope * (pos_i - pos_j) is taken off the logits (Press et al. 2022).
      method: "parallel" holds the [T, S] logits, "blockwise" never does, "auto" takes the faster one.
      block_size: keys and queries a block of "blockwise", which joins up to 4 blocks a side in long rows.

    Returns:
      [B, T, H, V] in the dtype of v. Logits and softmax are float32.

    Raises:
      ValueError: for an unknown method and for shapes or settings that do not fit, naming both.
    """
    q, k, v, segment_ids, kv_segment_ids, q_positions, kv_positions, sinks, slopes = as_arrays(
        q, k, v, segment_ids, kv_segment_ids, q_positions, kv_positions, sinks, slopes
    )
    _check(q, k, v, segment_ids, kv_segment_ids, q_positions, kv_positions, sinks, slopes)
    if window is not None and window < 1:
        raise ValueError(
            f"softmax_attention: window is {window}, expected at least 1: it counts the query itself."
        )
    if softcap is not None and not softcap > 0:
        raise ValueError(f"softmax_attention: softcap is {softcap}, expected a positive number or None.")
    require_scale("softmax_attention", scale)
    require_chunk_size("softmax_attention", "block_size", block_size)
    method = resolve("softmax_attention", method, METHODS, q.shape[1])
    batch, length, heads, key_dim = q.shape
    groups, dtype = k.shape[2], sum_dtype(q.dtype)
    queries, keys = _places(length, segment_ids, kv_segment_ids, q_positions, kv_positions)
    if window is not None and window > jnp.iinfo(jnp.int32).max:
        window = None  # no distance between int32 positions reaches it
    q = q * jnp.asarray(key_dim**-0.5 if scale is None else scale, q.dtype)
    q = q.reshape(batch, length, groups, heads // groups, key_dim)
    sinks, slopes = (x if x is None else x.astype(dtype).reshape(groups, -1) for x in (sinks, slopes))
    rule = Rule(window, softcap)
    if method == "blockwise":
        o = blockwise(q, k, v, queries, keys, sinks, slopes, rule, block_size)
    else:
        o = _parallel(q, k, v, queries, keys, sinks, slopes, rule)
    return o.reshape(batch, length, heads, -1).astype(v.dtype)


def _parallel(q, k, v, queries, keys, sinks, slopes, rule):
    """Every logit at once, [B, G, R T, S]: the R = H / G heads of a key/value head stand below each other."""
    batch, length, groups, ratio, _ = q.shape
    product = functools.partial(jnp.einsum, preferred_element_type=sum_dtype(q.dtype))
    queries = Places(*(jnp.tile(array, (1, ratio)) for array in queries))
    if slopes is not None:
        slopes = jnp.repeat(slopes, length, axis=1)[:, :, None]
    q = q.transpose(0, 2, 3, 1, 4).reshape(batch, groups, ratio * length, -1)
    products = product("bgrk,bgsk->bgrs", q, k.swapaxes(1, 2))
    scores, _, _ = logits(products, rule, across(queries), along(keys), slopes)
    top = scores.max(axis=-1, keepdims=True, initial=jnp.finfo(scores.dtype).min)
    if sinks is not None:
        sinks = jnp.repeat(sinks, length, axis=1)[None, :, :, None]
        top = jnp.maximum(top, sinks)
    top = jax.lax.stop_gradient(top)
    weights = jnp.exp(scores - top)
    total = weights.sum(axis=-1, keepdims=True)
    if sinks is not None:
        total = total + jnp.exp(sinks - top)
    weights = weights / jnp.where(total > 0, total, 1)
    o = product("bgrs,bgsv->bgrv", weights.astype(v.dtype), v.swapaxes(1, 2))
    return o.reshape(batch, groups, ratio, length, -1).transpose(0, 3, 1, 2, 4)


def _places(length, segment_ids, kv_segment_ids, q_positions, kv_positions):
    """The `Places` of the queries, [B or 1, T], and of the keys, [B or 1, S]."""
    ids = jnp.ones((1, length), jnp.int32) if segment_ids is None else segment_ids
    q_positions = segments.positions(ids) if q_positions is None else q_positions
    if kv_segment_ids is None:
        kv_segment_ids = ids
        kv_positions = q_positions if kv_positions is None else kv_positions
    elif kv_positions is None:
        kv_positions = segments.positions(kv_segment_ids)
    return Places(ids, q_positions), Places(kv_segment_ids, kv_positions)


def _check(q, k, v, segment_ids, kv_segment_ids, q_positions, kv_positions, sinks, slopes):
    """Raises ValueError for the first array whose shape does not fit the others."""
    name = "softmax_attention"
    require_rank(name, "q", q, "[B, T, H, K]")
    require_rank(name, "k", k, "[B, S, G, K]")
    batch, length, heads, key_dim = q.shape
    source, groups = k.shape[1:3]
    require_shape(name, "k", k, "[B, S, G, K]", (batch, source, groups, key_dim))
    require_rank(name, "v", v, "[B, S, G, V]")
    require_shape(name, "v", v, "[B, S, G, V]", (batch, source, groups, v.shape[3]))
    if groups == 0 or heads % groups:
        raise ValueError(f"{name}: q has {heads} heads and k has {groups}, expected a divisor of {heads}.")
    if kv_segment_ids is None and source != length:
        raise ValueError(
            f"{name}: q has {length} tokens and k has {source}, expected kv_segment_ids [B, S] too."
        )
    for which, array, letters, shape in (
        ("segment_ids", segment_ids, "[B, T]", (batch, length)),
        ("q_positions", q_positions, "[B, T]", (batch, length)),
        ("kv_segment_ids", kv_segment_ids, "[B, S]", (batch, source)),
        ("kv_positions", kv_positions, "[B, S]", (batch, source)),
    ):
        if array is not None:
            require_shape(name, which, array, letters, shape)
            if not jnp.issubdtype(array.dtype, jnp.integer):
                raise ValueError(f"{name}: {which} is {array.dtype}, expected integers.")
    for which, array in (("sinks", sinks), ("slopes", slopes)):
        if array is not None:
            require_shape(name, which, array, "[H]", (heads,))
