"""The chunked form of the delta rule: matrix products inside a chunk, one scan over chunks.

What token i writes under its key is u_i = beta_i (v_i - k_i^T S'), where S' holds the entering state and the
u_j of the chunk's earlier tokens. With s(i, j) of `chunk_weights` that is a unit lower triangular system,

    u_i + beta_i sum_{j < i} e^{s(i, j)} (k_i k_j) u_j = beta_i (v_i - e^{s(i, -1)} k_i^T S),

and given its solution the rest is linear attention over the keys k and the values u (Yang et al. 2024). A
document whose numbers overflow, by keys of norms far above 1, spoils the next one to the end of their chunk.
"""

from functools import partial

import jax
import jax.numpy as jnp

from seqmodels.ops.chunk_weights import keep_entered, marks_of, read_entered, visible_keys, weighted
from seqmodels.ops.chunks import fold_chunks
from seqmodels.ops.triangular import solve


def chunked(q, k, v, beta, g, scale, state, order, *, chunk_size):
    """Arguments as of linear attention, and beta [B, T, H].

    Returns o [B, T, H, V] and the final state [B, H, K, V]. Memory grows as T K + (T / C) K V.
    """
    size = 1 << (min(chunk_size, q.shape[1]) - 1).bit_length()
    tokens = q, k, v, beta[..., None], g
    state, o = fold_chunks(partial(_chunk, scale), size, state, tokens, marks_of(order))
    return o, state


def _chunk(scale, state, tokens, marks):
    """One chunk: tokens (q, k [B, C, H, K], v [B, C, H, V], ...) -> the state after it, o [B, C, H, V]."""
    q, k, v, beta, g = jax.tree.map(lambda array: jnp.moveaxis(array.astype(state.dtype), 2, 1), tokens)
    visible = visible_keys(q.shape[2], marks)
    [[of_q], [of_k]], entered, left = weighted((q, k), (k,), g, visible)
    read, known = read_entered([q * entered, k * entered], state, visible)
    u = solve(jnp.tril(beta * of_k, -1), beta * (v - known))
    o = read + jnp.einsum("bhij,bhjv->bhiv", of_q, u)
    state = keep_entered(entered, state, visible) + jnp.einsum("bhjk,bhjv->bhkv", k * left, u)
    return state, scale * jnp.moveaxis(o, 1, 2)
