"""Unit lower triangular systems as matrix products: (I + A) x = y, many small ones at once.

The inverse is built by blocks: of [[P, 0], [C, Q]] it is [[P^-1, 0], [-Q^-1 C P^-1, Q^-1]]. Unlike a series
in the powers of A, whose terms grow and cancel, every block is one of the inverse itself; and unlike
substitution row by row, the whole takes few steps.
"""

import jax
import jax.numpy as jnp

# Blocks of this many rows are inverted row by row: so few are faster without products.
SMALLEST = 8


@jax.custom_vjp
def solve(A, y):
    """x [..., C, V] with (I + A) x = y: A [..., C, C], 0 on and above the diagonal, C a power of 2."""
    return _product(_inverse(A), y)


def _forward(A, y):
    inverse = _inverse(A)
    x = _product(inverse, y)
    return x, (inverse, x)


def _backward(kept, dx):
    inverse, x = kept
    dy = _product(inverse.mT, dx)
    # What stands on and above the diagonal belongs to entries of A that are 0 by construction.
    return -_product(dy, x.mT), dy


solve.defvjp(_forward, _backward)


def _product(a, b):
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)


def _inverse(A):
    """(I + A)^-1."""
    size = A.shape[-1]
    if size <= SMALLEST:
        return _row_by_row(A)
    half = size // 2
    diagonal = jnp.stack([A[..., :half, :half], A[..., half:, half:]], axis=-3)
    first, second = jnp.unstack(_inverse(diagonal), axis=-3)
    across = -_product(_product(second, A[..., half:, :half]), first)
    top = jnp.concatenate([first, jnp.zeros_like(first)], axis=-1)
    return jnp.concatenate([top, jnp.concatenate([across, second], axis=-1)], axis=-2)


def _row_by_row(A):
    """Row i of the inverse is that of I, less the rows before it times row i of A."""
    identity = jnp.broadcast_to(jnp.eye(A.shape[-1], dtype=A.dtype), A.shape)
    rows = [identity[..., 0, :]]
    for i in range(1, A.shape[-1]):
        earlier = jnp.stack(rows, axis=-2)
        rows.append(identity[..., i, :] - (A[..., i, :i, None] * earlier).sum(axis=-2))
    return jnp.stack(rows, axis=-2)
