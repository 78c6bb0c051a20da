"""The chunked form of linear attention: matrix products inside a chunk, one scan over chunks."""

from functools import partial

import jax
import jax.numpy as jnp

from seqmodels.ops.chunk_weights import (
    keep_entered,
    marks_of,
    per_channel,
    read_entered,
    visible_keys,
    weighted,
)
from seqmodels.ops.chunks import fold_chunks


def chunked(q, k, v, g, scale, state, order, *, chunk_size):
    """q, k [B, T, H, K]; v [B, T, H, V]; g [1 or B, T, H, 1 or K] or None; order [B, T], ordinals, or None.

    Returns o [B, T, H, V] and the final state [B, H, K, V]. Memory grows as T K + (T / C) K V.
    """
    size = min(chunk_size, q.shape[1])
    if per_channel(g):
        size = 1 << (size - 1).bit_length()
    state, o = fold_chunks(partial(_chunk, scale), size, state, (q, k, v, g), marks_of(order))
    return o, state


def parallel(q, k, v, g, scale, state, order):
    """The quadratic form: the whole row as one chunk, without recomputation."""
    state, o = _chunk(scale, state, (q, k, v, g), marks_of(order))
    return o, state


def _chunk(scale, state, tokens, marks):
    """One chunk: tokens (q, k [B, C, H, K], v [B, C, H, V], g) -> the state after it, o [B, C, H, V]."""
    q, k, v, g = jax.tree.map(lambda array: jnp.moveaxis(array.astype(state.dtype), 2, 1), tokens)
    visible = visible_keys(q.shape[2], marks)
    [[scores]], entered, left = weighted((q,), (k,), g, visible)
    [read] = read_entered([q * entered], state, visible)
    o = jnp.einsum("bhij,bhjv->bhiv", scores, v) + read
    state = keep_entered(entered, state, visible) + jnp.einsum("bhjk,bhjv->bhkv", k * left, v)
    return state, scale * jnp.moveaxis(o, 1, 2)
