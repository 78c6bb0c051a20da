"""Normalisation over the last axis, in float32 whatever the compute dtype."""

import jax
import jax.numpy as jnp
from flax import nnx

EPSILON = 1e-5
L2_EPSILON = 1e-6


def _scaled(x: jax.Array, parameter: nnx.Param) -> jax.Array:
    return x * jnp.expand_dims(parameter[...], tuple(range(x.ndim - parameter.ndim)))


def l2_norm(x: jax.Array) -> jax.Array:
    """x / sqrt(sum(x²) + 1e-6) over the last axis: of length 1 but near 0; in the dtype of x."""
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt(jnp.sum(wide * wide, axis=-1, keepdims=True) + L2_EPSILON)).astype(x.dtype)


class RMSNorm(nnx.Module):
    """x / sqrt(mean(x²) + 1e-5) · scale (Zhang and Sennrich 2019).

    shape: of the scale, the last axes of x; the mean is over the last one alone, so that (H, V) normalises
    each head and has a scale for each.
    """

    def __init__(self, *shape: int):
        self.scale = nnx.Param(jnp.ones(shape, jnp.float32), weight_decay=False)

    def __call__(self, x: jax.Array) -> jax.Array:
        """[..., *shape] -> the same, in the dtype of x."""
        wide = x.astype(jnp.float32)
        wide = wide * jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + EPSILON)
        return _scaled(wide, self.scale).astype(x.dtype)


class LayerNorm(nnx.Module):
    """(x − mean) / sqrt(variance + 1e-5) · scale + bias (Ba et al. 2016)."""

    def __init__(self, width: int):
        self.scale = nnx.Param(jnp.ones(width, jnp.float32), weight_decay=False)
        self.bias = nnx.Param(jnp.zeros(width, jnp.float32), weight_decay=False)

    def __call__(self, x: jax.Array) -> jax.Array:
        """[..., D] -> the same, in the dtype of x."""
        wide = x.astype(jnp.float32)
        wide = wide - jnp.mean(wide, axis=-1, keepdims=True)
        wide = wide * jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + EPSILON)
        bias = jnp.expand_dims(self.bias[...], tuple(range(x.ndim - 1)))
        return (_scaled(wide, self.scale) + bias).astype(x.dtype)


class GroupNorm(nnx.Module):
    """(x − mean) / sqrt(variance + epsilon) · scale + bias in each head (Wu and He 2018), a group a head.

    heads, head_dim: H and V, the last axes of x, for each of which there is a scale and a bias.
    """

    def __init__(self, heads: int, head_dim: int, *, epsilon: float):
        self.epsilon = epsilon
        self.scale = nnx.Param(jnp.ones((heads, head_dim), jnp.float32), weight_decay=False)
        self.bias = nnx.Param(jnp.zeros((heads, head_dim), jnp.float32), weight_decay=False)

    def __call__(self, x: jax.Array) -> jax.Array:
        """[B, T, H, V] -> the same, in the dtype of x."""
        wide = x.astype(jnp.float32)
        wide = wide - jnp.mean(wide, axis=-1, keepdims=True)
        wide = wide * jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + self.epsilon)
        return (_scaled(wide, self.scale) + self.bias[...][None, None]).astype(x.dtype)
