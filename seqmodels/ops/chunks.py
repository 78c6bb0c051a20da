"""One scan over chunks of tokens whose backward pass recomputes each chunk from the state that entered it.

Chunks are read where they lie and results are written where they belong: handing `lax.scan` the chunks as its
inputs and outputs would copy every array into another order, which costs as much as the products themselves.
"""

from functools import partial

import jax
import jax.numpy as jnp


def pad_tail(array: jax.Array, size: int, mode: str = "constant") -> jax.Array:
    """[B, T, ...] to the next multiple of `size` tokens, with 0 ("constant") or the last entry ("edge")."""
    tail = -array.shape[1] % size
    if not tail:
        return array
    return jnp.pad(array, ((0, 0), (0, tail)) + ((0, 0),) * (array.ndim - 2), mode=mode)


def fold_chunks(body, size, state, tokens, marks):
    """`scan_chunks` for any T: the last chunk is filled with tokens of 0 that carry the last token's marks.

    Of the tokens added, body must leave nothing in the state. Returns (state, outputs [b, T, ...]).
    """
    length = jax.tree.leaves(tokens)[0].shape[1]
    tokens = jax.tree.map(lambda array: pad_tail(array, size), tokens)
    marks = jax.tree.map(lambda array: pad_tail(array, size, "edge"), marks)
    state, outputs = scan_chunks(body, size, state, tokens, marks)
    return state, jax.tree.map(lambda array: array[:, :length], outputs)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def scan_chunks(body, size, state, tokens, marks):
    """Fold `body(state, tokens, marks) -> (state, outputs)` over chunks of `size` tokens.

    tokens: a tree of float arrays [b, T, ...], T a multiple of size; marks: a tree of integer arrays alike,
    which have no gradient. body must close over no traced array.

    Returns (state, outputs [b, T, ...]). Between the passes, memory holds the inputs and T / size states.
    """
    state, outputs, _ = _scan(body, size, state, tokens, marks, keep=False)
    return state, outputs


def _at(tree, chunk, size):
    return jax.tree.map(lambda array: jax.lax.dynamic_slice_in_dim(array, chunk * size, size, axis=1), tree)


def _written(tree, chunk, size, values):
    def write(array, value):
        return jax.lax.dynamic_update_slice_in_dim(array, value, chunk * size, axis=1)

    return jax.tree.map(write, tree, values)


def _scan(body, size, state, tokens, marks, keep):
    length = jax.tree.leaves(tokens)[0].shape[1]

    def step(carry, chunk):
        state, outputs = carry
        after, values = body(state, *_at((tokens, marks), chunk, size))
        return (after, _written(outputs, chunk, size, values)), state if keep else None

    _, one = jax.eval_shape(lambda state, *arrays: body(state, *_at(arrays, 0, size)), state, tokens, marks)
    outputs = jax.tree.map(lambda a: jnp.zeros((a.shape[0], length, *a.shape[2:]), a.dtype), one)
    (state, outputs), entered = jax.lax.scan(step, (state, outputs), jnp.arange(length // size))
    return state, outputs, entered


def _forward(body, size, state, tokens, marks):
    state, outputs, entered = _scan(body, size, state, tokens, marks, keep=True)
    return (state, outputs), (entered, tokens, marks)


def _backward(body, size, residuals, cotangents):
    entered, tokens, marks = residuals
    dstate, doutputs = cotangents

    def step(carry, position):
        dstate, dtokens = carry
        chunk, state = position
        part, mark = _at((tokens, marks), chunk, size)
        _, pullback = jax.vjp(lambda state, part: body(state, part, mark), state, part)
        dstate, dpart = pullback((dstate, _at(doutputs, chunk, size)))
        return (dstate, _written(dtokens, chunk, size, dpart)), None

    positions = jnp.arange(jax.tree.leaves(entered)[0].shape[0]), entered
    start = dstate, jax.tree.map(jnp.zeros_like, tokens)
    (dstate, dtokens), _ = jax.lax.scan(step, start, positions, reverse=True)
    return dstate, dtokens, None


scan_chunks.defvjp(_forward, _backward)
