"""Feature maps φ of linear attention: each turns q and k so that φ(q)·φ(k) stands for a similarity.

All work over the last axis, in float32, and return the dtype of their input.
"""

from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

FeatureMapName = Literal["elu1", "relu", "identity", "hedgehog", "taylor", "dpfp"]
DPFP_SHIFTS = 4


def elu1(x: jax.Array) -> jax.Array:
    """elu(x) + 1 (Katharopoulos et al. 2020): positive, K features."""
    return jax.nn.elu(x) + 1


def taylor(x: jax.Array) -> jax.Array:
    """[1, x/K^¼, x⊗x/√(2K)] (Arora et al. 2024): exp(q·k/√K) to second order, in 1 + K + K² features."""
    size = x.shape[-1]
    square = (x[..., :, None] * x[..., None, :]).reshape(*x.shape[:-1], size * size)
    one = jnp.ones((*x.shape[:-1], 1), x.dtype)
    return jnp.concatenate([one, x / size**0.25, square / np.sqrt(2 * size).item()], axis=-1)


def dpfp(x: jax.Array) -> jax.Array:
    """Products of [relu(x), relu(−x)] with its 4 left shifts (Schlag et al. 2021): 8 K features."""
    halves = jnp.concatenate([jax.nn.relu(x), jax.nn.relu(-x)], axis=-1)
    shifted = [halves * jnp.roll(halves, -shift, axis=-1) for shift in range(1, DPFP_SHIFTS + 1)]
    return jnp.concatenate(shifted, axis=-1)


FIXED: dict[str, Callable[[jax.Array], jax.Array]] = {
    "elu1": elu1,
    "relu": jax.nn.relu,
    "identity": lambda x: x,
    "taylor": taylor,
    "dpfp": dpfp,
}


class FeatureMap(nnx.Module):
    """φ of one of q and k: a fixed map, or "hedgehog", softmax([W x, −W x]) with a W a head that starts as
    the identity (Zhang et al. 2024).
    """

    def __init__(self, name: FeatureMapName, heads: int, key_dim: int):
        self.name = name
        identity = jnp.tile(jnp.eye(key_dim, dtype=jnp.float32), (heads, 1, 1))
        self.weight = nnx.Param(identity) if name == "hedgehog" else None

    def __call__(self, x: jax.Array) -> jax.Array:
        """[B, T, H, K] -> [B, T, H, `features(name, K)`]."""
        if self.weight is None:
            return FIXED[self.name](x.astype(jnp.float32)).astype(x.dtype)
        mapped = jnp.einsum(
            "bthk,hkj->bthj", x, self.weight[...].astype(x.dtype), preferred_element_type=jnp.float32
        )
        return jax.nn.softmax(jnp.concatenate([mapped, -mapped], axis=-1), axis=-1).astype(x.dtype)


def features(name: FeatureMapName, key_dim: int) -> int:
    """How many features a map makes of K numbers."""
    larger = {"taylor": 1 + key_dim + key_dim**2, "dpfp": 2 * DPFP_SHIFTS * key_dim, "hedgehog": 2 * key_dim}
    return larger.get(name, key_dim)
