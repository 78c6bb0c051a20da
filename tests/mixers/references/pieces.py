"""What several equations begin or end with, once more and without our modules."""

import jax.numpy as jnp

HEADS = 2


def heads_of(x, kernel):
    y = x @ kernel
    return y.reshape(*y.shape[:2], HEADS, -1)


def silu(x):
    return x / (1 + jnp.exp(-x))


def short_convolution(p, x):
    """SiLU(Σ_i kernel_i x_{t−W+1+i} + bias), zeros before the document."""
    kernel, length = p["kernel"], x.shape[1]
    padded = jnp.pad(x, ((0, 0), (kernel.shape[0] - 1, 0), (0, 0)))
    y = sum(padded[:, i : i + length] * kernel[i] for i in range(kernel.shape[0]))
    return silu(y + p["bias"] if "bias" in p else y)
