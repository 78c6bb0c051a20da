"""Rows without their padding: real tokens first, in order, so that neighbours in the array are neighbours."""

import jax
import jax.numpy as jnp


def packing(real: jax.Array) -> tuple[jax.Array, jax.Array]:
    """[B, T] each: where the packed row takes its tokens from, and where each token of `real` [B, T] went.

    Padding follows behind. Each is a permutation of a row and the inverse of the other.
    """
    count = real.sum(axis=1, keepdims=True)
    back = jnp.where(real, jnp.cumsum(real, axis=1) - 1, count + jnp.cumsum(~real, axis=1) - 1)
    return jnp.argsort(back, axis=1), back


@jax.custom_vjp
def permuted(x, order, inverse):
    """x [B, T, D] with its tokens taken in `order`, a permutation of each row; `inverse` undoes it.

    The gradient is a gather as well, where autodiff would scatter.
    """
    return jax.vmap(lambda row, order: jnp.take(row, order, axis=0, mode="clip"))(x, order)


permuted.defvjp(
    lambda x, order, inverse: (permuted(x, order, inverse), (order, inverse)),
    lambda orders, cotangent: (permuted(cotangent, orders[1], orders[0]), None, None),
)
