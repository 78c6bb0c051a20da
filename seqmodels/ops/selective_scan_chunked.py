"""The chunked form of Mamba's scan: linear memory, and a gradient of its own.

Autodiff of the token scan keeps every state, [B, T, N, E], and spends its time writing and reading them. Here
the forward pass keeps the states at chunk borders alone. The backward pass takes the chunks from the last to
the first: it computes a chunk's states again from its border, then carries the state's gradient back,

    g_t = C_t dy_t + exp(dt_{t+1} A) g_{t+1},

and reads every other gradient off g_t, the state before t and its decay while they are still in cache.

A chunk is walked in blocks. On CPUs a block is one token. On accelerators, which pay a launch a step, it is
the whole chunk, whose states a tree of depth log C gives.
"""

import jax
import jax.numpy as jnp

from seqmodels.ops.recurrence import compose


def chunked(x, dt, A, B, C, start, h, *, chunk_size):
    """y [B, T, E] and the final state; the arguments are those of the other forms in `selective_scan`."""
    batch, length, width = x.shape
    chunk_size = min(chunk_size, length)
    block_size = tokens_at_once(chunk_size)
    chunks = -(-length // chunk_size)

    def split(array):
        """[B, T, ...] to [chunks, blocks, block, B, ...]; the tokens added behind T have dt = 0, inert."""
        rest = array.shape[2:]
        array = jnp.pad(array, ((0, 0), (0, chunks * chunk_size - length)) + ((0, 0),) * len(rest))
        return array.swapaxes(0, 1).reshape(chunks, chunk_size // block_size, block_size, batch, *rest)

    y, h = _chunks(*map(split, (x, dt)), A, *map(split, (B, C, start)), h)
    return y.reshape(-1, batch, width)[:length].swapaxes(0, 1), h


def tokens_at_once(chunk_size):
    """Tokens a block on the present platform; it divides chunk_size."""
    return 1 if jax.default_backend() == "cpu" else chunk_size


def _decays(dt, A):
    """exp(dt A) [block, B, N, E]."""
    return jnp.exp(dt[:, :, None, :] * A[None, None])


def _recur(decay, added, start, h, reverse=False):
    """h_t = decay_t h_{t-1} + added_t through a block [block, B, N, E]; h [B, N, E] is the state before.

    start [block, B] forgets h_{t-1}: selected away, so that not even an infinite state goes on.
    """
    start = start[:, :, None, None]
    if decay.shape[0] == 1:
        return decay * jnp.where(start, 0, h[None]) + added
    first = -1 if reverse else 0
    added = added.at[first].add(decay[first] * jnp.where(start[first], 0, h))
    return jax.lax.associative_scan(compose, (decay, added, start), reverse=reverse)[1]


def _states(x, dt, A, B, start, h):
    """A block's states [block, B, N, E]."""
    return _recur(_decays(dt, A), B[:, :, :, None] * (dt * x)[:, :, None, :], start, h)


def _walk(x, dt, A, B, C, start, h):
    """y [chunks, blocks, block, B, E], the state before every chunk [chunks, B, N, E], and the last state."""

    def block(h, inputs):
        x, dt, B, C, start = inputs
        states = _states(x, dt, A, B, start, h)
        return states[-1], jnp.einsum("tbn,tbne->tbe", C, states)

    def chunk(h, inputs):
        after, y = jax.lax.scan(block, h, inputs)
        return after, (y, h)

    h, (y, borders) = jax.lax.scan(chunk, h, (x, dt, B, C, start))
    return y, borders, h


@jax.custom_vjp
def _chunks(x, dt, A, B, C, start, h):
    y, _, h = _walk(x, dt, A, B, C, start, h)
    return y, h


def _chunks_forward(x, dt, A, B, C, start, h):
    y, borders, h = _walk(x, dt, A, B, C, start, h)
    return (y, h), (x, dt, A, B, C, start, borders)


def _chunks_backward(kept, cotangents):
    x, dt, A, B, C, start, borders = kept
    dy, dh = cotangents

    def again(h, inputs):
        """A block's states once more: what C gets from them, and the state before each token."""
        x, dt, B, start, dy = inputs
        states = _states(x, dt, A, B, start, h)
        dC = jnp.einsum("tbe,tbne->tbn", dy, states)
        before = jnp.where(start[:, :, None, None], 0, jnp.concatenate([h[None], states[:-1]]))
        return states[-1], (before, dC)

    def back(carry, inputs):
        """One block from its end to its start, given the gradient of the state behind it."""
        g, dA = carry
        x, dt, B, C, start, dy, before = inputs
        decay = _decays(dt, A)
        later = jnp.concatenate([decay[1:], jnp.ones_like(decay[:1])])
        start_later = jnp.concatenate([start[1:], jnp.zeros_like(start[:1])])
        g = _recur(later, C[:, :, :, None] * dy[:, :, None, :], start_later, g, reverse=True)
        carried = jnp.where(start[:, :, None, None], 0, g * decay)
        exponent = carried * before
        added = jnp.einsum("tbn,tbne->tbe", B, g)
        dB = jnp.einsum("tbe,tbne->tbn", dt * x, g)
        # A product with ones: XLA's CPU reduction over an axis that is not the last is several times slower.
        ddt = jnp.einsum("tbn,tbne->tbe", jnp.ones_like(B), A[None, None] * exponent) + x * added
        dA = dA + (dt[:, :, None, :] * exponent).sum(axis=0)
        return (carried[0], dA), (dt * added, ddt, dB)

    def chunk(carry, inputs):
        x, dt, B, C, start, dy, border = inputs
        _, (before, dC) = jax.lax.scan(again, border, (x, dt, B, start, dy))
        carry, (dx, ddt, dB) = jax.lax.scan(back, carry, (x, dt, B, C, start, dy, before), reverse=True)
        return carry, (dx, ddt, dB, dC)

    carry = (dh, jnp.zeros_like(dh))
    (dh, dA), (dx, ddt, dB, dC) = jax.lax.scan(chunk, carry, (x, dt, B, C, start, dy, borders), reverse=True)
    return dx, ddt, dA.sum(axis=0), dB, dC, None, dh


_chunks.defvjp(_chunks_forward, _chunks_backward)
