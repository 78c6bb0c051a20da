"""How a memory kept by heads is read out: normalised in each head, gated by the input, projected."""

from typing import Literal

import jax
from flax import nnx

from seqmodels.nn.linear import Linear, residual_std
from seqmodels.nn.low_rank import LowRank
from seqmodels.nn.norms import RMSNorm

ACTIVATIONS = {"silu": jax.nn.silu, "sigmoid": jax.nn.sigmoid}


class HeadOutput(nnx.Module):
    """y = W_o (RMSNorm(o) · gate(W_g x)), with a mean square and a scale for each head (Sun et al. 2023).

    width: D. heads: H. value_dim: V. gate: the activation, or None for no gate. gate_rank: the rank of W_g;
    None: full. layers: of the whole model, for the initialisation of W_o.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        value_dim: int,
        *,
        gate: Literal["silu", "sigmoid"] | None,
        gate_rank: int | None = None,
        layers: int,
        rngs: nnx.Rngs,
    ):
        values = heads * value_dim
        self.activation = gate
        self.norm = RMSNorm(heads, value_dim)
        if gate is None:
            self.gate = None
        elif gate_rank is None:
            self.gate = Linear(width, values, rngs=rngs)
        else:
            self.gate = LowRank(width, gate_rank, values, rngs=rngs)
        self.projection = Linear(values, width, std=residual_std(layers), rngs=rngs)

    def __call__(self, o: jax.Array, x: jax.Array) -> jax.Array:
        """o [B, T, H, V], read from the memory, and x [B, T, D], the mixer's input -> y [B, T, D]."""
        o = self.norm(o).reshape(*x.shape[:2], -1)
        if self.gate is not None:
            o = o * ACTIVATIONS[self.activation](self.gate(x).astype(x.dtype))
        return self.projection(o)

    def flops_per_token(self) -> int:
        """Of the products, 2 a multiply-add."""
        gate = 0 if self.gate is None else self.gate.flops_per_token()
        return gate + self.projection.flops_per_token()
