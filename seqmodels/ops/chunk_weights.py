"""What one token of a chunk weighs in the sum of another: visibility, and decays between the two.

With s(i, j) = g_{j+1} + ... + g_i, query i reads key j of its own document with weight e^{s(i, j)}, and the
state that enters a chunk as a key at j = -1, before its tokens. s(i, j) is always a sum of the terms it
names, never the difference of two longer sums: a difference loses digits under strong decay, and across a
border in the chunk it would let one document change the bits of the next. So every exponent is <= 0 as well.
"""

import jax
import jax.numpy as jnp

# Up to this many tokens segment sums are faster as one product, C^3, than as a scan of C^2 log C additions.
LONGEST_CHUNK = 256


def marks_of(order):
    """The ordinals [B, T] of documents, and those before each token; None where there are no ordinals.

    At a chunk's first token the ordinal before it is that of the entering state.
    """
    return None if order is None else (order, jnp.pad(order, ((0, 0), (1, 0)))[:, :-1])


def visible_keys(size, marks):
    """[1 or B, 1, C, 1 + C] bool: query i sees key j <= i of its document; column 0 is the entering state."""
    causal = jnp.arange(size)[:, None] >= jnp.arange(-1, size)[None, :]
    if marks is None:
        return causal[None, None]
    order, before = marks
    keys = jnp.concatenate([before[:, :1], order], axis=1)
    return (causal[None] & (order[:, :, None] == keys[:, None, :]))[:, None]


def per_channel(g):
    """Whether the decay [..., 1 or K], or None, differs between key channels."""
    return g is not None and g.shape[-1] > 1


def weighted(queries, keys, g, visible):
    """Scores of a chunk and the weights of the states before and after it.

    queries, keys: tuples of arrays [B, H, C, K]. g: [B, H, C, 1 or K] or None; C is a power of 2 where it
    differs between channels. visible: as `visible_keys` gives it.

    Returns scores[query][key], e^{s(i, j)} q_i k_j [B, H, C, C], 0 where j is not visible; e^{s(i, -1)}, the
    weights with which the queries read the entering state, whether they see it or not; and the weights with
    which the keys are left in the state after the chunk, 0 where that is of another document; both
    [1 or B, 1 or H, C, 1 or K]. The last row of the first is what is kept of the entering state.
    """
    if per_channel(g):
        scores, before, after = decayed_by_channel(queries, keys, g)
        entered, left = jnp.exp(before), jnp.exp(after)
    elif g is None:
        scores = _products(queries, keys)
        entered = left = jnp.ones((1, 1, visible.shape[-2], 1), queries[0].dtype)
    else:
        weights = jnp.exp(segment_sums(g[..., 0]))
        scores = jax.tree.map(lambda array: array * weights[..., 1:], _products(queries, keys))
        entered, left = weights[..., :1], weights[..., -1, 1:, None]
    scores = jax.tree.map(lambda array: jnp.where(visible[..., 1:], array, 0), scores)
    return scores, entered, jnp.where(visible[..., -1, 1:, None], left, 0)


def read_entered(queries, state, visible):
    """What weighted queries [B, H, C, K] read of the entering state [B, H, K, V]: [B, H, C, V] of each.

    It is 0 where they do not see the state: selected, not multiplied by 0, since a document whose numbers
    have overflowed must not reach the next one.
    """
    reads = jnp.einsum("bhik,bhkv->bhiv", jnp.concatenate(queries, axis=2), state)
    return [jnp.where(visible[..., :1], read, 0) for read in jnp.split(reads, len(queries), axis=2)]


def keep_entered(entered, state, visible):
    """What is left of the entering state [B, H, K, V] after the chunk; entered: as `weighted` gives it."""
    return jnp.where(visible[..., -1:, :1], entered[..., -1, :, None] * state, 0)


def _products(queries, keys):
    """All q_i k_j as one product: tuples of arrays [..., C, K] -> [query][key] of [..., C, C]."""
    products = jnp.einsum("...ik,...jk->...ij", jnp.concatenate(queries, -2), jnp.concatenate(keys, -2))
    rows = jnp.split(products, len(queries), axis=-2)
    return [jnp.split(row, len(keys), axis=-1) for row in rows]


def segment_sums(g):
    """[..., C] -> [..., C, 1 + C]: s(i, j) for j = -1 .. C - 1, and 0 where j >= i."""
    size = g.shape[-1]
    tokens = jnp.arange(size)
    later = tokens[:, None] > jnp.arange(-1, size)[None, :]
    terms = jnp.where(later.reshape((1,) * (g.ndim - 1) + later.shape), g[..., None], 0)
    if size > LONGEST_CHUNK:
        return jnp.cumsum(terms, axis=-2)
    until = (tokens[:, None] >= tokens[None, :]).astype(g.dtype)
    return jnp.einsum("im,...mj->...ij", until, terms, precision=jax.lax.Precision.HIGHEST)


def decayed_by_channel(queries, keys, g):
    """Scores under a decay per key channel: tuples of arrays [B, H, C, K], g [B, H, C, K], C a power of 2.

    Returns [query][key] of sum_k q_i k_j e^{s(i, j)} [B, H, C, C] for j <= i, and s(i, -1), s(C - 1, j)
    [B, H, C, K].

    By halves: a query in the upper half of a block and a key in the lower half meet at the middle, where
    s(i, j) splits into a sum over the upper half up to i and one over the lower half after j. Both factors
    are <= 1, and the scores of all such pairs are one product. Blocks of one token are joined to the chunk.
    """
    *lead, size, width = g.shape
    blocks = (*lead, size, 1, width)
    scores = _products([q.reshape(blocks) for q in queries], [k.reshape(blocks) for k in keys])
    before, after = g, jnp.zeros_like(g)
    half = 1
    while half < size:
        pairs = (*lead, size // (2 * half), 2, half, width)
        before_lower, before_upper = jnp.unstack(before.reshape(pairs), axis=-3)
        after_lower, after_upper = jnp.unstack(after.reshape(pairs), axis=-3)
        # Kinds are weighted one by one: the gradient of one weight for all is a sum that CPUs are slow at.
        to_middle, from_middle = jnp.exp(before_upper), jnp.exp(after_lower)
        across = _products(
            [q.reshape(pairs)[..., 1, :, :] * to_middle for q in queries],
            [k.reshape(pairs)[..., 0, :, :] * from_middle for k in keys],
        )
        scores = jax.tree.map(_joined, scores, across)
        whole_lower, whole_upper = before_lower[..., -1:, :], before_upper[..., -1:, :]
        before = jnp.stack([before_lower, before_upper + whole_lower], axis=-3).reshape(g.shape)
        after = jnp.stack([after_lower + whole_upper, after_upper], axis=-3).reshape(g.shape)
        half *= 2
    return jax.tree.map(lambda array: array[:, :, 0], scores), before, after


def _joined(blocks, across):
    """Pairs of triangular blocks [B, H, 2 n, C, C], and what is across each, as blocks twice as large."""
    lower, upper = blocks[:, :, 0::2], blocks[:, :, 1::2]
    top = jnp.concatenate([lower, jnp.zeros_like(across)], axis=-1)
    return jnp.concatenate([top, jnp.concatenate([across, upper], axis=-1)], axis=-2)
