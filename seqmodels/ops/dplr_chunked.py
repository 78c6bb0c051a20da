"""The chunked form of a diagonal plus low-rank transition: products inside a chunk, one scan over chunks.

What token i reads of the state before it is p_i = a_i^T S_{i-1}, where S_{i-1} holds the entering state, the
k_j v_j^T and the b_j p_j of the chunk's earlier tokens. With s(i, j) of `chunk_weights` that is a unit lower
triangular system,

    p_i - sum_{j < i} w_ij (a_i b_j) p_j = e^{s(i-1, -1)} a_i^T S + sum_{j < i} w_ij (a_i k_j) v_j

with w_ij = e^{s(i-1, j)},

and given its solution the rest is linear attention over the pairs (k, v) and (b, p) (Peng et al. 2025).
"""

from functools import partial

import jax
import jax.numpy as jnp

from seqmodels.ops.chunk_weights import (
    decayed_by_channel,
    keep_entered,
    marks_of,
    read_entered,
    visible_keys,
)
from seqmodels.ops.chunks import fold_chunks
from seqmodels.ops.triangular import solve


def chunked(q, k, v, a, b, g, scale, state, order, *, chunk_size):
    """q, k, a, b, g [B, T, H, K]; v [B, T, H, V]; order [B, T] or None.

    Returns o [B, T, H, V] and the final state [B, H, K, V]. Memory grows as T K + (T / C) K V.
    """
    size = 1 << (min(chunk_size, q.shape[1]) - 1).bit_length()
    state, o = fold_chunks(partial(_chunk, scale), size, state, (q, k, v, a, b, g), marks_of(order))
    return o, state


def _chunk(scale, state, tokens, marks):
    """One chunk: tokens (q, k [B, C, H, K], v [B, C, H, V], ...) -> the state after it, o [B, C, H, V]."""
    q, k, v, a, b, g = jax.tree.map(lambda array: jnp.moveaxis(array.astype(state.dtype), 2, 1), tokens)
    visible = visible_keys(q.shape[2], marks)
    # a reads before its token's decay and update, as a query one token earlier would.
    (of_q, of_a), before, after = decayed_by_channel((q, _earlier(a)), (k, b), g)
    seen = visible[..., 1:]
    of_q = [jnp.where(seen, scores, 0) for scores in of_q]
    of_a = [jnp.where(seen, _later(scores), 0) for scores in of_a]
    entered = jnp.exp(before)
    read, known = read_entered([q * entered, a * jnp.exp(_later(before))], state, visible)
    p = solve(-of_a[1], known + jnp.einsum("bhij,bhjv->bhiv", of_a[0], v))
    values = jnp.concatenate([v, p], axis=2)
    o = read + jnp.einsum("bhij,bhjv->bhiv", jnp.concatenate(of_q, axis=3), values)
    left = jnp.where(visible[..., -1, 1:, None], jnp.exp(after), 0)
    added = jnp.einsum("bhjk,bhjv->bhkv", jnp.concatenate([k * left, b * left], axis=2), values)
    return keep_entered(entered, state, visible) + added, scale * jnp.moveaxis(o, 1, 2)


def _earlier(array):
    """[B, H, C, ...] with every token's entry one token earlier, and 0 at the last."""
    return jnp.concatenate([array[:, :, 1:], jnp.zeros_like(array[:, :, :1])], axis=2)


def _later(array):
    """[B, H, C, ...] with every token's entry one token later, and 0 at the first."""
    return jnp.concatenate([jnp.zeros_like(array[:, :, :1]), array[:, :, :-1]], axis=2)
