"""Softmax attention without the [T, S] array: blocks, an online softmax, and a gradient of its own.

Forward (Milakov and Gimelshein 2018; Dao et al. 2022): for each block of queries, a loop over the blocks of
keys keeps the largest logit so far, the sum of exponentials and the weighted sum of values, and rescales both
whenever the largest logit grows. Kept for the gradient: the outputs and the logarithm of each query's sum.
Backward: for each block of keys, a loop over the blocks of queries computes the weights again.

A block of keys that no query of a block can see costs nothing: each loop runs from the first block that may
be seen to the last. Under the causal rule that halves the work, under a window it makes it linear in T.

Queries lie as [blocks, B, G, rows, K], keys as [blocks, B, G, keys, K]: the queries of the R = H / G heads
that share a key/value head stand below each other in one block of rows, and one product serves them all.
"""

import functools

import jax
import jax.numpy as jnp

from seqmodels.ops.attention_logits import Places, across, along, logits
from seqmodels.ops.precision import sum_dtype

# Blocks a side.
LARGEST_TILE = 4


def blockwise(q, k, v, queries, keys, sinks, slopes, rule, block_size):
    """Attention outputs [B, T, G, R, V].

    q [B, T, G, R, K], already scaled; k [B, S, G, K]; v [B, S, G, V]; queries, keys: `Places` [B or 1, T] and
    [B or 1, S]; sinks, slopes: [G, R] or None; rule: `Rule`.
    """
    batch, length, groups, ratio, _ = q.shape
    q_size, k_size = (_tile(block_size, size, rule.window) for size in (length, k.shape[1]))
    # One transpose each, straight from and to the caller's layout: two in a row are slow loops on CPUs.
    q = _split(q, q_size).transpose(1, 0, 3, 4, 2, 5).reshape(-1, batch, groups, ratio * q_size, q.shape[-1])
    k, v = (_split(array, k_size).transpose(1, 0, 3, 2, 4) for array in (k, v))
    queries = Places(*(jnp.tile(_split(array, q_size).swapaxes(0, 1), (1, 1, ratio)) for array in queries))
    keys = Places(*(_split(array, k_size).swapaxes(0, 1) for array in keys))
    sinks, slopes = (
        array if array is None else jnp.repeat(array, q_size, axis=1) for array in (sinks, slopes)
    )
    o = _attend(rule, q, k, v, queries, keys, sinks, slopes)
    o = o.reshape(-1, batch, groups, ratio, q_size, v.shape[-1]).transpose(1, 0, 4, 2, 3, 5)
    return o.reshape(batch, -1, groups, ratio, v.shape[-1])[:, :length]


def _tile(block_size, length, window):
    """Tokens a side of the squares of logits: up to 4 blocks in long rows, where larger products win more
    than the unseen half of the squares on the diagonal costs (on CPUs a quarter of the time at 2048 tokens).
    """
    reach = length if window is None else min(length, window)
    blocks = max(1, min(LARGEST_TILE, reach // (4 * block_size)))
    return min(blocks * block_size, length)


def _split(array, size):
    """[B, T, ...] to [B, blocks, size, ...]; what fills the last block has id 0, so nothing sees it."""
    blocks = -(-array.shape[1] // size)
    padding = [(0, 0)] * array.ndim
    padding[1] = (0, blocks * size - array.shape[1])
    return jnp.pad(array, padding).reshape(array.shape[0], blocks, size, *array.shape[2:])


def _ranges(rule, queries, keys):
    """For each block of queries the range of key blocks that it may see, for each block of keys the reverse.

    Each is a pair of int32 arrays: the first block, and the one behind the last.
    """

    def span(places):
        """Least and largest id and position of the real tokens of each block, [blocks, B]."""
        real, largest = places.ids != 0, jnp.iinfo(jnp.int32).max
        low = (jnp.where(real, array, largest).min(axis=2) for array in places)
        high = (jnp.where(real, array, -largest).max(axis=2) for array in places)
        return Places(*low), Places(*high)

    def bounds(pairs):
        behind = pairs.shape[1] - jnp.argmax(pairs[:, ::-1], axis=1)
        return jnp.argmax(pairs, axis=1), jnp.where(pairs.any(axis=1), behind, 0)

    (q_low, q_high), (k_low, k_high) = span(queries), span(keys)
    pairs = (q_low.ids[:, None] <= k_high.ids[None]) & (k_low.ids[None] <= q_high.ids[:, None])
    pairs &= k_low.positions[None] <= q_high.positions[:, None]
    if rule.window is not None:
        pairs &= k_high.positions[None] > q_low.positions[:, None] - rule.window
    pairs = pairs.any(axis=2)
    return bounds(pairs), bounds(pairs.T)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attend(rule, q, k, v, queries, keys, sinks, slopes):
    return _forward(rule, q, k, v, queries, keys, sinks, slopes)[0]


def _forward(rule, q, k, v, queries, keys, sinks, slopes):
    dtype = sum_dtype(q.dtype)
    product = functools.partial(jnp.einsum, preferred_element_type=dtype)
    slopes_down = None if slopes is None else slopes[:, :, None]

    def query_block(_, inputs):
        q, places, (first, behind) = inputs

        def key_block(j, carry):
            top, total, o = carry
            there = Places(keys.ids[j], keys.positions[j])
            products = product("bgrk,bgsk->bgrs", q, k[j])
            scores, _, _ = logits(products, rule, across(places), along(there), slopes_down)
            higher = jnp.maximum(top, scores.max(axis=-1, keepdims=True))
            weights, shrink = jnp.exp(scores - higher), jnp.exp(top - higher)
            total = total * shrink + weights.sum(axis=-1, keepdims=True)
            o = o * shrink + product("bgrs,bgsv->bgrv", weights.astype(v.dtype), v[j])
            return higher, total, o

        # A sink is one more key, already met, whose value is zero. The lowest finite number in the place of
        # -inf keeps -inf - -inf, a NaN, out of rows that see nothing.
        top = jnp.full((*q.shape[:-1], 1), jnp.finfo(dtype).min)
        total = jnp.zeros_like(top)
        if sinks is not None:
            top, total = jnp.broadcast_to(sinks[None, :, :, None], top.shape), total + 1
        o = jnp.zeros((*q.shape[:-1], v.shape[-1]), dtype)
        top, total, o = jax.lax.fori_loop(first, behind, key_block, (top, total, o))
        divisor = jnp.where(total > 0, total, 1)
        log_total = jnp.where(total > 0, top + jnp.log(divisor), 0)
        return None, (o / divisor, log_total[..., 0])

    of_queries, _ = _ranges(rule, queries, keys)
    _, (o, log_total) = jax.lax.scan(query_block, None, (q, queries, of_queries))
    return o, (q, k, v, queries, keys, sinks, slopes, o, log_total)


def _backward(rule, kept, do):
    """Works on [keys, rows] blocks: each of the five products then contracts the last axis of its left side,
    the one orientation that XLA's CPU backend has a fast kernel for."""
    q, k, v, queries, keys, sinks, slopes, o, log_total = kept
    dtype = sum_dtype(q.dtype)
    product = functools.partial(jnp.einsum, preferred_element_type=dtype)
    slopes_along = None if slopes is None else slopes[:, None, :]
    do = do.astype(v.dtype)

    def o_times_do(block):
        # Where the softmax saturates, o is one v and the terms of `dscores` cancel. They only do where both
        # round alike, as entries of the same product; a sum over the last axis rounds otherwise.
        return jnp.diagonal(product("bgsv,bgrv->bgsr", *block), axis1=2, axis2=3)

    o_do = jax.lax.map(o_times_do, (o.astype(v.dtype), do))

    def key_block(carry, inputs):
        k, v, places, (first, behind) = inputs
        k_transposed = k.swapaxes(2, 3)

        def query_block(i, carry):
            dq, dk, dv, dslopes = carry
            there = Places(queries.ids[i], queries.positions[i])
            products = product("bgsk,bgrk->bgsr", k, q[i])
            scores, capped, distance = logits(products, rule, along(there), across(places), slopes_along)
            weights = jnp.exp(scores - log_total[i][:, :, None])
            dv = dv + product("bgsr,bgrv->bgsv", weights.astype(v.dtype), do[i])
            dscores = weights * (product("bgsv,bgrv->bgsr", v, do[i]) - o_do[i][:, :, None])
            if slopes is not None:
                dslopes = dslopes - (dscores * distance).sum(axis=(0, 2))
            if rule.softcap is not None:
                dscores = dscores * (1 - (capped / rule.softcap) ** 2)
            dscores = dscores.astype(q.dtype)
            dk = dk + product("bgsr,bgrk->bgsk", dscores, q[i])
            dq = dq.at[i].add(product("bgks,bgsr->bgkr", k_transposed, dscores))
            return dq, dk, dv, dslopes

        dq, dslopes = carry
        dk, dv = (jnp.zeros(array.shape, dtype) for array in (k, v))
        dq, dk, dv, dslopes = jax.lax.fori_loop(first, behind, query_block, (dq, dk, dv, dslopes))
        return (dq, dslopes), (dk.astype(k.dtype), dv.astype(v.dtype))

    dq = jnp.zeros_like(q.swapaxes(3, 4), dtype=dtype)
    dslopes = None if slopes is None else jnp.zeros_like(slopes)
    _, of_keys = _ranges(rule, queries, keys)
    (dq, dslopes), (dk, dv) = jax.lax.scan(key_block, (dq, dslopes), (k, v, keys, of_keys))
    dsinks = None
    if sinks is not None:
        dsinks = -(jnp.exp(sinks[None, None] - log_total) * o_do).sum(axis=(0, 1))
    return dq.swapaxes(3, 4).astype(q.dtype), dk, dv, None, None, dsinks, dslopes


_attend.defvjp(_forward, _backward)
