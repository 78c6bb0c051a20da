"""Linear maps and embeddings: float32 parameters, products in the dtype of the input."""

import jax
import jax.numpy as jnp
from flax import nnx

INIT_STD = 0.02


def residual_std(layers: int) -> float:
    """For projections into the residual stream, where 2·layers of them add up (Radford et al. 2019)."""
    return INIT_STD * (2 * layers) ** -0.5


def product(x: jax.Array, kernel: jax.Array, *, dtype: jnp.dtype | None = None) -> jax.Array:
    """[..., I] times [I, O] -> [..., O], in `dtype` or in that of the arguments.

    x goes in as one matrix: from several leading axes XLA's CPU backend would form the kernel's gradient out
    of a transposed copy of x, a fifth of a Transformer's step.
    """
    y = jnp.matmul(x.reshape(-1, x.shape[-1]), kernel, preferred_element_type=dtype)
    return y.reshape(*x.shape[:-1], kernel.shape[1])


class Linear(nnx.Module):
    """y = x W + b over the last axis.

    inputs, outputs: sizes of the last axis; bias: whether there is b (it takes no weight decay); std: of W's
    normal initialisation.
    """

    def __init__(
        self, inputs: int, outputs: int, *, bias: bool = False, std: float = INIT_STD, rngs: nnx.Rngs
    ):
        self.kernel = nnx.Param(std * jax.random.normal(rngs.params(), (inputs, outputs), jnp.float32))
        self.bias = nnx.Param(jnp.zeros(outputs, jnp.float32), weight_decay=False) if bias else None

    def __call__(self, x: jax.Array, *, dtype: jnp.dtype | None = None) -> jax.Array:
        """[..., inputs] -> [..., outputs], in `dtype` or in that of x."""
        y = product(x, self.kernel[...].astype(x.dtype), dtype=dtype)
        if self.bias is not None:
            y = y + jnp.expand_dims(self.bias[...].astype(y.dtype), tuple(range(y.ndim - 1)))
        return y

    def flops_per_token(self) -> int:
        """Of the product, 2 a multiply-add."""
        return 2 * self.kernel.size


class Embedding(nnx.Module):
    """A table [entries, D] that turns ids into vectors and, where the head is tied, vectors into logits."""

    def __init__(self, entries: int, width: int, *, rngs: nnx.Rngs):
        self.table = nnx.Param(INIT_STD * jax.random.normal(rngs.params(), (entries, width), jnp.float32))

    def __call__(self, ids: jax.Array) -> jax.Array:
        """[...] int32 -> [..., D] float32; an id outside the table gives NaN, never another id's vector."""
        table = jnp.asarray(self.table[...])
        return table.at[ids].get(mode="fill", fill_value=jnp.nan, wrap_negative_indices=False)

    def logits(self, x: jax.Array) -> jax.Array:
        """[..., D] -> [..., entries] float32: the products of x with every entry."""
        return product(x, self.table[...].astype(x.dtype).T, dtype=jnp.float32)
