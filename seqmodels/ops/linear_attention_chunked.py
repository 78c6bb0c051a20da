"""The chunked form of linear attention: matrix products inside a chunk, one scan over chunks.

s(i, j) = g_{j+1} + ... + g_i is always a sum of the terms it names, never the difference of two longer sums: a
difference loses digits under strong decay, and across a border in the chunk it would let one document change the
bits of the next. So every exponent is <= 0. The state that enters a chunk stands at j = -1, before its tokens.
"""

import jax
import jax.numpy as jnp


def chunked(q, k, v, g, scale, state, order, *, chunk_size):
    """q, k [B, T, H, K]; v [B, T, H, V]; g None or [1 or B, T, H, 1 or K]; order [B, T] document ordinals or None.

    Returns o [B, T, H, V] and the final state [B, H, K, V]. The body is recomputed in the backward pass, so that
    memory grows as T K + (T / C) K V.
    """
    length = q.shape[1]
    size = min(chunk_size, length)
    entering = None
    if order is not None:
        # The ordinal before each token, so that a chunk's first column is that of the entering state.
        entering = _chunks(jnp.pad(order, ((0, 0), (1, 0)))[:, :-1], size, "edge")[:, :, 0]
        order = _chunks(order, size, "edge")
    tokens = jax.tree.map(lambda array: _chunks(array, size, "constant"), (q, k, v, g))

    @jax.checkpoint
    def body(state, chunk):
        tokens, order, entering = chunk
        return _chunk(*tokens, scale, state, order, entering)

    state, o = jax.lax.scan(body, state, (tokens, order, entering))
    o = jnp.moveaxis(o, 0, 1)
    return o.reshape(o.shape[0], -1, *o.shape[3:])[:, :length], state


def parallel(q, k, v, g, scale, state, order):
    """The quadratic form: the whole row as one chunk, without recomputation."""
    entering = None if order is None else jnp.zeros_like(order[:, 0])
    state, o = _chunk(q, k, v, g, scale, state, order, entering)
    return o, state


def _chunks(array, size, mode):
    """[B, T, ...] -> [T / C, B, C, ...]; the tail is padded, with zeros ("constant") or the last entry ("edge")."""
    batch, length = array.shape[:2]
    tail = -length % size
    if tail:
        array = jnp.pad(array, ((0, 0), (0, tail)) + ((0, 0),) * (array.ndim - 2), mode=mode)
    return jnp.moveaxis(array.reshape(batch, -1, size, *array.shape[2:]), 1, 0)


def _chunk(q, k, v, g, scale, state, order, entering):
    """One chunk: q, k [B, C, H, K], v [B, C, H, V] -> the state after it, o [B, C, H, V]."""
    q, k, v = (jnp.moveaxis(array.astype(state.dtype), 2, 1) for array in (q, k, v))
    visible = _visible(q.shape[2], order, entering)
    if g is not None and g.shape[-1] > 1:
        weights = jnp.exp(_segment_sums(jnp.moveaxis(g, (1, 2, 3), (3, 1, 2))))
        weights = jnp.where(visible[:, :, None], weights, 0)
        read = jnp.einsum("bhik,bhjk,bhkij->bhij", q, k, weights[..., 1:])
        o = jnp.einsum("bhij,bhjv->bhiv", read, v)
        o = o + jnp.einsum("bhik,bhki,bhkv->bhiv", q, weights[..., 0], state)
        last = jnp.moveaxis(weights[..., -1, :], 2, 3)
        state = last[..., 0, :, None] * state + jnp.einsum("bhjk,bhjv->bhkv", last[..., 1:, :] * k, v)
        return state, scale * jnp.moveaxis(o, 1, 2)
    if g is None:
        weights = visible.astype(state.dtype)
    else:
        weights = jnp.where(visible, jnp.exp(_segment_sums(jnp.moveaxis(g[..., 0], 2, 1))), 0)
    read = jnp.einsum("bhik,bhjk->bhij", q, k) * weights[..., 1:]
    o = jnp.einsum("bhij,bhjv->bhiv", read, v) + weights[..., :1] * jnp.einsum("bhik,bhkv->bhiv", q, state)
    last = weights[..., -1, :, None]
    state = last[..., :1, :] * state + jnp.einsum("bhjk,bhjv->bhkv", last[..., 1:, :] * k, v)
    return state, scale * jnp.moveaxis(o, 1, 2)


def _visible(size, order, entering):
    """[1 or B, 1, C, 1 + C] bool: query i sees key j <= i of its own document; column 0 is the entering state."""
    causal = jnp.arange(size)[:, None] >= jnp.arange(-1, size)[None, :]
    if order is None:
        return causal[None, None]
    keys = jnp.concatenate([entering[:, None], order], axis=1)
    return (causal[None] & (order[:, :, None] == keys[:, None, :]))[:, None]


def _segment_sums(g):
    """[..., C] -> [..., C, 1 + C]: s(i, j) for j = -1 .. C - 1, and 0 where j >= i."""
    size = g.shape[-1]
    later = jnp.arange(size)[:, None] > jnp.arange(-1, size)[None, :]
    terms = jnp.where(later.reshape((1,) * (g.ndim - 1) + later.shape), g[..., None], 0)
    return jnp.cumsum(terms, axis=-2)
