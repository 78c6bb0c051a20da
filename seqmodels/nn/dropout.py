"""Dropout, and the one rule for when it acts."""

import jax
import jax.numpy as jnp


def dropout(x: jax.Array, rate: float, key: jax.Array | None) -> jax.Array:
    """Zeroes each element with probability `rate` and scales the rest by 1/(1 − rate); without a key, x itself."""
    if key is None or rate == 0.0:
        return x
    keep = jax.random.bernoulli(key, 1.0 - rate, x.shape)
    return jnp.where(keep, x / jnp.asarray(1.0 - rate, x.dtype), jnp.zeros((), x.dtype))
