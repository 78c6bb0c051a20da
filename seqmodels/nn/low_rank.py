"""A linear map through a few channels: for gates, which need less than a full matrix."""

from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx

from seqmodels.nn.linear import INIT_STD, Linear, product

ACTIVATIONS = {"none": lambda x: x, "tanh": jnp.tanh, "sigmoid": jax.nn.sigmoid}


class LowRank(nnx.Module):
    """y = activation(x W_down) W_up + b over the last axis, in float32 from the second product on.

    inputs, rank, outputs: sizes of the last axis before, between and after; activation: between the products;
    bias: whether there is b, which takes no weight decay.
    """

    def __init__(
        self,
        inputs: int,
        rank: int,
        outputs: int,
        *,
        activation: Literal["none", "tanh", "sigmoid"] = "none",
        bias: bool = False,
        rngs: nnx.Rngs,
    ):
        self.activation = activation
        self.down = Linear(inputs, rank, rngs=rngs)
        up = INIT_STD * jax.random.normal(rngs.params(), (rank, outputs), jnp.float32)
        self.up = nnx.Param(up)
        self.bias = nnx.Param(jnp.zeros(outputs, jnp.float32), weight_decay=False) if bias else None

    def __call__(self, x: jax.Array) -> jax.Array:
        """[..., inputs] -> [..., outputs] float32."""
        y = product(
            ACTIVATIONS[self.activation](self.down(x)), self.up[...].astype(x.dtype), dtype=jnp.float32
        )
        if self.bias is not None:
            y = y + jnp.expand_dims(self.bias[...], tuple(range(y.ndim - 1)))
        return y

    def flops_per_token(self) -> int:
        """Of the products, 2 a multiply-add."""
        return self.down.flops_per_token() + 2 * self.up.size
