"""How the layers of linear state-space models end: a nonlinearity over channels, which they have none of."""

import jax
import jax.numpy as jnp
from flax import nnx

from seqmodels.nn.linear import Linear, residual_std


class GatedOutput(nnx.Module):
    """u · σ(g) with u, g = W GELU(x) (Gu et al. 2022), a gated linear unit (Dauphin et al. 2017).

    inputs, outputs: sizes of the last axis. layers: of the whole model, for the initialisation of W.
    """

    def __init__(self, inputs: int, outputs: int, *, layers: int, rngs: nnx.Rngs):
        self.projection = Linear(inputs, 2 * outputs, std=residual_std(layers), rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """[..., inputs] -> [..., outputs], in the dtype of x."""
        u, gate = jnp.split(self.projection(jax.nn.gelu(x)), 2, axis=-1)
        return u * jax.nn.sigmoid(gate)

    def flops_per_token(self) -> int:
        """Of the products, 2 a multiply-add."""
        return self.projection.flops_per_token()
