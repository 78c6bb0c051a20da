"""Softmax attention to recent tokens and to pooled blocks of older ones, in one softmax."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from seqmodels.ops.precision import sum_dtype

METHODS = ("parallel", "blockwise")
# "auto" holds the logits of so many queries at once, and takes more of them in blocks.
LONGEST_SQUARE = 1024


class Source(NamedTuple):
    """What queries read: keys [B, G, S, K] and values [B, G, S, V] of tokens or of pooled blocks.

    ids: [B, S] int32 documents, 0 where nothing is. places: [B, S] int32, of a token in its document; of a
    block, that of its last token. last: [B, S] int32, the place of the last token of the block, of a token
    too: at `window` tokens after it the block's tokens give way to the block.
    """

    keys: jax.Array
    values: jax.Array
    ids: jax.Array
    places: jax.Array
    last: jax.Array

    def then(self, other: "Source") -> "Source":
        """Both, one behind the other."""
        return Source(
            *(jnp.concatenate(pair, axis=pair[0].ndim // 2) for pair in zip(self, other, strict=True))
        )


def compressed_attention(
    q: jax.Array,
    ids: jax.Array,
    places: jax.Array,
    tokens: Source,
    blocks: Source,
    *,
    window: int,
    method: str = "auto",
    block_size: int = 128,
) -> jax.Array:
    """One softmax over the tokens of blocks that end less than `window` before a query, and the other blocks.

    Args:
      q: [B, T, H, K] queries, scaled here by K^−½; query head j reads key/value head j // (H / G).
      ids: [B, T] int32 documents of the queries, 0 for padding, which reads zeros. places: [B, T] int32 of
        the queries in them.
      tokens, blocks: the two sources.
      method: "parallel" holds the logits [T, S] of all queries, "blockwise" those of block_size of them and
        recomputes them for gradients, "auto" the first up to 1024 queries.

    Returns:
      [B, T, H, V] in the dtype of q. Logits and softmax are float32.
    """
    batch, length, heads, size = q.shape
    q = (q * jnp.asarray(size**-0.5, q.dtype)).reshape(batch, length, tokens.keys.shape[1], -1, size)
    read = functools.partial(_read, tokens, blocks, window)
    if method == "parallel" or (method == "auto" and length <= LONGEST_SQUARE):
        return read((q, ids, places)).reshape(batch, length, heads, -1)
    block_size = min(block_size, length)
    missing = -length % block_size

    def split(y):
        y = jnp.pad(y, ((0, 0), (0, missing), *((0, 0),) * (y.ndim - 2)))
        return y.reshape(batch, -1, block_size, *y.shape[2:]).swapaxes(0, 1)

    o = jax.lax.map(jax.checkpoint(read), (split(q), split(ids), split(places)))
    return o.swapaxes(0, 1).reshape(batch, length + missing, heads, -1)[:, :length]


def _read(tokens, blocks, window, queries):
    """[B, t, G, R, V] for t queries: q [B, t, G, R, K], the R heads of a key/value head, and ids, places."""
    q, ids, places = queries
    batch, length, groups, ratio, _ = q.shape
    ids, places = (jnp.tile(array, (1, ratio))[:, :, None] for array in (ids, places))
    recent = (places >= tokens.places[:, None]) & (places - tokens.last[:, None] < window)
    older = places - blocks.last[:, None] >= window
    sum_in = sum_dtype(q.dtype)
    # The heads of a group stand below each other, so that each source is met in plain products, uncopied.
    rows = q.transpose(0, 2, 3, 1, 4).reshape(batch, groups, ratio * length, -1)
    scores = []
    for source, in_reach in ((tokens, recent), (blocks, older)):
        seen = in_reach & (ids == source.ids[:, None]) & (ids != 0)
        products = jnp.einsum("bgrk,bgsk->bgrs", rows, source.keys, preferred_element_type=sum_in)
        scores.append(jnp.where(seen[:, None], products, -jnp.inf))
    scores = jnp.concatenate(scores, axis=-1)
    top = scores.max(axis=-1, keepdims=True, initial=jnp.finfo(sum_in).min)
    weights = jnp.exp(scores - jax.lax.stop_gradient(top))
    total = weights.sum(axis=-1, keepdims=True)
    weights = (weights / jnp.where(total > 0, total, 1)).astype(q.dtype)
    parts = jnp.split(weights, [tokens.ids.shape[1]], axis=-1)
    o = sum(
        jnp.einsum("bgrs,bgsv->bgrv", part, source.values, preferred_element_type=sum_in)
        for part, source in zip(parts, (tokens, blocks), strict=True)
    )
    o = o.reshape(batch, groups, ratio, length, -1).transpose(0, 3, 1, 2, 4)
    return o.astype(q.dtype)
