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

    queries: [B, H, C, R, K] and keys [B, H, C, S, K], R and S kinds of each. g: [B, H, C, 1 or K] or None; C
    is a power of 2 where it differs between channels. visible: as `visible_keys` gives it.

    Returns the scores e^{s(i, j)} q_i k_j [B, H, C, R, C, S], 0 where j is not visible; and the weights
    [1 or B, 1 or H, C, 1 or K] with which the queries read the entering state, and with which the keys are
    left in the state after the chunk; the last row of the first is what is kept of the entering state.
    """
    if per_channel(g):
        scores, before, after = decayed_by_channel(queries, keys, g)
        scores = jnp.where(visible[:, :, :, None, 1:, None], scores, 0)
        entered = jnp.where(visible[..., :1], jnp.exp(before), 0)
        return scores, entered, jnp.where(visible[..., -1, 1:, None], jnp.exp(after), 0)
    weights = visible.astype(queries.dtype)
    if g is not None:
        weights = jnp.where(visible, jnp.exp(segment_sums(g[..., 0])), 0)
    scores = jnp.einsum("bhirk,bhjsk->bhirjs", queries, keys) * weights[:, :, :, None, 1:, None]
    return scores, weights[..., :1], weights[..., -1, 1:, None]


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
    """Scores under a decay per key channel: [B, H, C, R, K], [B, H, C, S, K], [B, H, C, K], C a power of 2.

    Returns sum_k q_i k_j e^{s(i, j)} [B, H, C, R, C, S] for j <= i, and s(i, -1), s(C - 1, j) [B, H, C, K].

    By halves: a query in the upper half of a block and a key in the lower half meet at the middle, where
    s(i, j) splits into a sum over the upper half up to i and one over the lower half after j. Both factors
    are <= 1, and the scores of all such pairs are one product. Blocks of one token are joined to the chunk.
    """
    *lead, size, width = g.shape
    # The kinds of a token lie side by side, so that half a block is one matrix without being copied.
    kinds, key_kinds = queries.shape[3], keys.shape[3]
    scores = jnp.einsum("bhirk,bhisk->bhirs", queries, keys)
    before, after = g, jnp.zeros_like(g)
    half = 1
    while half < size:
        pairs = (*lead, size // (2 * half), 2, half)
        q_upper = queries.reshape(*pairs, kinds, width)[..., 1, :, :, :]
        k_lower = keys.reshape(*pairs, key_kinds, width)[..., 0, :, :, :]
        before_lower, before_upper = jnp.unstack(before.reshape(*pairs, width), axis=-3)
        after_lower, after_upper = jnp.unstack(after.reshape(*pairs, width), axis=-3)
        q_upper = (q_upper * jnp.exp(before_upper)[..., None, :]).reshape(*pairs[:-2], half * kinds, width)
        k_lower = (k_lower * jnp.exp(after_lower)[..., None, :]).reshape(*pairs[:-2], half * key_kinds, width)
        across = jnp.einsum("bhnik,bhnjk->bhnij", q_upper, k_lower)
        lower, upper = scores[:, :, 0::2], scores[:, :, 1::2]
        top = jnp.concatenate([lower, jnp.zeros_like(across)], axis=-1)
        scores = jnp.concatenate([top, jnp.concatenate([across, upper], axis=-1)], axis=-2)
        whole_lower, whole_upper = before_lower[..., -1:, :], before_upper[..., -1:, :]
        before = jnp.stack([before_lower, before_upper + whole_lower], axis=-3).reshape(g.shape)
        after = jnp.stack([after_lower + whole_upper, after_upper], axis=-3).reshape(g.shape)
        half *= 2
    return scores.reshape(*lead, size, kinds, size, key_kinds), before, after
