"""Attention to the recent tokens and to the means of older blocks, over all pairs."""

import jax
import jax.numpy as jnp
import numpy as np

from tests.mixers.references.pieces import heads_of, rotated

WINDOW, BLOCK = 64, 16  # the mixer's defaults


def compressed_attention(p, x):
    q, k, v = (heads_of(x, p[name]["kernel"]) for name in ("query", "key", "value"))
    batch, length, heads, size = q.shape
    q, k = rotated(q), rotated(k)
    blocks = length // BLOCK

    def means(y):
        return y[:, : blocks * BLOCK].reshape(batch, blocks, BLOCK, heads, size).mean(2)

    query, key = np.arange(length)[:, None], np.arange(length)[None, :]
    last = np.arange(blocks)[None, :] * BLOCK + BLOCK - 1
    pooled = last <= query - WINDOW
    # A token is read while its block is not, complete or still to be completed.
    exact = (key <= query) & (key // BLOCK * BLOCK + BLOCK - 1 > query - WINDOW)
    seen = np.concatenate([exact, pooled], axis=1)
    keys, values = (jnp.concatenate([y, means(y)], axis=1) for y in (k, v))
    logits = jnp.einsum("bthk,bshk->bhts", q, keys) / np.sqrt(size)
    weights = jax.nn.softmax(jnp.where(seen[None, None], logits, -np.inf), axis=-1)
    o = jnp.einsum("bhts,bshv->bthv", weights, values)
    return o.reshape(batch, length, -1) @ p["output"]["kernel"]
