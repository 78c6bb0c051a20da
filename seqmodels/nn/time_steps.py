"""The initial time steps of state-space mixers and of the gates that follow them."""

import math

import jax
import jax.numpy as jnp
from flax import nnx

RANGE = (1e-3, 1e-1)
FLOOR = 1e-4
RATES = (1.0, 16.0)


def log_uniform_steps(shape: int | tuple[int, ...], rngs: nnx.Rngs) -> jax.Array:
    """float32 of that shape, log-uniform in [1e-3, 1e-1] (Gu et al. 2022)."""
    low, high = (math.log(step) for step in RANGE)
    return jnp.exp(jax.random.uniform(rngs.params(), shape, jnp.float32, low, high))


def inverse_softplus_steps(channels: int, rngs: nnx.Rngs) -> jax.Array:
    """[channels] float32: biases whose softplus is log-uniform in [1e-3, 1e-1], floored at 1e-4."""
    steps = jnp.maximum(log_uniform_steps(channels, rngs), FLOOR)
    return steps + jnp.log(-jnp.expm1(-steps))


def log_rates(heads: int, rngs: nnx.Rngs) -> jax.Array:
    """[heads] float32: log A for A uniform in [1, 16], how fast a head forgets (Dao and Gu 2024)."""
    return jnp.log(jax.random.uniform(rngs.params(), heads, jnp.float32, *RATES))
