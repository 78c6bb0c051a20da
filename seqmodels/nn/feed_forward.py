"""The position-wise half of a block."""

from typing import Literal

import jax
from flax import nnx

from seqmodels.nn.linear import Linear, residual_std

FeedForwardKind = Literal["relu", "gelu", "swiglu"]


def default_feed_forward_width(width: int, kind: FeedForwardKind) -> int:
    """4·width; for swiglu's three matrices 8/3·width, rounded up to a multiple of 32: equal parameters."""
    if kind == "swiglu":
        return -(-8 * width // (3 * 32)) * 32
    return 4 * width


class FeedForward(nnx.Module):
    """relu (Vaswani et al. 2017), gelu, or swiglu (Shazeer 2020): W_down(SiLU(W_gate x) · W_up x).

    width: D; hidden: F; layers: of the whole model, for the initialisation of the down projection.
    """

    def __init__(self, width: int, hidden: int, *, kind: FeedForwardKind, layers: int, rngs: nnx.Rngs):
        self.kind = kind
        self.gate = Linear(width, hidden, rngs=rngs) if kind == "swiglu" else None
        self.up = Linear(width, hidden, rngs=rngs)
        self.down = Linear(hidden, width, std=residual_std(layers), rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        """[B, T, D] -> [B, T, D]."""
        up = self.up(x)
        if self.kind == "swiglu":
            hidden = jax.nn.silu(self.gate(x)) * up
        elif self.kind == "gelu":
            hidden = jax.nn.gelu(up)
        else:
            hidden = jax.nn.relu(up)
        return self.down(hidden)

    def flops_per_token(self) -> int:
        """Of the products, 2 a multiply-add."""
        matrices = (self.gate, self.up, self.down)
        return sum(linear.flops_per_token() for linear in matrices if linear is not None)
