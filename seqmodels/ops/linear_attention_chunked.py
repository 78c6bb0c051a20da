"""The chunked form of linear attention: matrix products inside a chunk, one scan over chunks.

With s(i, j) = g_{j+1} + ... + g_i, query i reads key j of its own document with weight e^{s(i, j)}, and the
state that enters a chunk as a key at j = -1, before its tokens. s(i, j) is always a sum of the terms it
names, never the difference of two longer sums: a difference loses digits under strong decay, and across a
border in the chunk it would let one document change the bits of the next. So every exponent is <= 0 as well.
"""

from functools import partial

import jax
import jax.numpy as jnp

from seqmodels.ops.chunks import pad_tail, scan_chunks

# Up to this many tokens segment sums are faster as one product, C^3, than as a scan of C^2 log C additions.
LONGEST_CHUNK = 256


def chunked(q, k, v, g, scale, state, order, *, chunk_size):
    """q, k [B, T, H, K]; v [B, T, H, V]; g [1 or B, T, H, 1 or K] or None; order [B, T], ordinals, or None.

    Returns o [B, T, H, V] and the final state [B, H, K, V]. Memory grows as T K + (T / C) K V.
    """
    length = q.shape[1]
    size = min(chunk_size, length)
    if _per_channel(g):
        size = 1 << (size - 1).bit_length()
    tokens = jax.tree.map(lambda array: pad_tail(array, size), (q, k, v, g))
    marks = None if order is None else (pad_tail(order, size, "edge"), pad_tail(_before(order), size, "edge"))
    state, o = scan_chunks(partial(_chunk, scale), size, state, tokens, marks)
    return o[:, :length], state


def parallel(q, k, v, g, scale, state, order):
    """The quadratic form: the whole row as one chunk, without recomputation."""
    marks = None if order is None else (order, _before(order))
    state, o = _chunk(scale, state, (q, k, v, g), marks)
    return o, state


def _per_channel(g):
    return g is not None and g.shape[-1] > 1


def _before(order):
    """The ordinal before each token; at a chunk's first token it is that of the entering state."""
    return jnp.pad(order, ((0, 0), (1, 0)))[:, :-1]


def _chunk(scale, state, tokens, marks):
    """One chunk: tokens (q, k [B, C, H, K], v [B, C, H, V], g) -> the state after it, o [B, C, H, V]."""
    q, k, v, g = tokens
    q, k, v = (jnp.moveaxis(array.astype(state.dtype), 2, 1) for array in (q, k, v))
    visible = _visible(q.shape[2], marks)
    if _per_channel(g):
        scores, before, after = _decayed_by_channel(q, k, jnp.moveaxis(g, 2, 1))
        scores = jnp.where(visible[..., 1:], scores, 0)
        entered = jnp.where(visible[..., :1], jnp.exp(before), 0)
        left = jnp.where(visible[..., -1, 1:, None], jnp.exp(after), 0)
        kept = entered[..., -1, :, None]
    else:
        weights = visible.astype(state.dtype)
        if g is not None:
            weights = jnp.where(visible, jnp.exp(_segment_sums(jnp.moveaxis(g[..., 0], 2, 1))), 0)
        scores = jnp.einsum("bhik,bhjk->bhij", q, k) * weights[..., 1:]
        entered, left = weights[..., :1], weights[..., -1, 1:, None]
        kept = entered[..., -1:, :]
    o = jnp.einsum("bhij,bhjv->bhiv", scores, v) + jnp.einsum("bhik,bhkv->bhiv", q * entered, state)
    state = kept * state + jnp.einsum("bhjk,bhjv->bhkv", k * left, v)
    return state, scale * jnp.moveaxis(o, 1, 2)


def _visible(size, marks):
    """[1 or B, 1, C, 1 + C] bool: query i sees key j <= i of its document; column 0 is the entering state."""
    causal = jnp.arange(size)[:, None] >= jnp.arange(-1, size)[None, :]
    if marks is None:
        return causal[None, None]
    order, before = marks
    keys = jnp.concatenate([before[:, :1], order], axis=1)
    return (causal[None] & (order[:, :, None] == keys[:, None, :]))[:, None]


def _segment_sums(g):
    """[..., C] -> [..., C, 1 + C]: s(i, j) for j = -1 .. C - 1, and 0 where j >= i."""
    size = g.shape[-1]
    tokens = jnp.arange(size)
    later = tokens[:, None] > jnp.arange(-1, size)[None, :]
    terms = jnp.where(later.reshape((1,) * (g.ndim - 1) + later.shape), g[..., None], 0)
    if size > LONGEST_CHUNK:
        return jnp.cumsum(terms, axis=-2)
    until = (tokens[:, None] >= tokens[None, :]).astype(g.dtype)
    return jnp.einsum("im,...mj->...ij", until, terms, precision=jax.lax.Precision.HIGHEST)


def _decayed_by_channel(q, k, g):
    """Scores under a decay per key channel: q, k, g [B, H, C, K], C a power of 2.

    Returns sum_k q_i k_j e^{s(i, j)} [B, H, C, C] for j <= i, and s(i, -1), s(C - 1, j) [B, H, C, K].

    By halves: a query in the upper half of a block and a key in the lower half meet at the middle, where
    s(i, j) splits into a sum over the upper half up to i and one over the lower half after j. Both factors
    are <= 1, and the scores of all such pairs are one product. Blocks of one token are joined to the chunk.
    """
    *lead, size, width = q.shape
    scores = jnp.einsum("bhik,bhik->bhi", q, k)[..., None, None]
    before, after = g, jnp.zeros_like(g)
    half = 1
    while half < size:
        pairs = (*lead, size // (2 * half), 2, half, width)
        q_upper, k_lower = q.reshape(pairs)[..., 1, :, :], k.reshape(pairs)[..., 0, :, :]
        before_lower, before_upper = jnp.unstack(before.reshape(pairs), axis=-3)
        after_lower, after_upper = jnp.unstack(after.reshape(pairs), axis=-3)
        across = jnp.einsum(
            "bhnik,bhnjk->bhnij", q_upper * jnp.exp(before_upper), k_lower * jnp.exp(after_lower)
        )
        inside = scores.reshape(*pairs[:-1], half)
        top = jnp.concatenate([inside[..., 0, :, :], jnp.zeros_like(across)], axis=-1)
        scores = jnp.concatenate([top, jnp.concatenate([across, inside[..., 1, :, :]], axis=-1)], axis=-2)
        whole_lower, whole_upper = before_lower[..., -1:, :], before_upper[..., -1:, :]
        before = jnp.stack([before_lower, before_upper + whole_lower], axis=-3).reshape(g.shape)
        after = jnp.stack([after_lower + whole_upper, after_upper], axis=-3).reshape(g.shape)
        half *= 2
    return scores.reshape(*lead, size, size), before, after
