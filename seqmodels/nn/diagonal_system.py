"""A linear system with dense input and output maps and diagonal complex dynamics, as LRU and S5 have it.

Complex parameters and states are pairs of real numbers, since checkpoints, optimizers and caches hold floats.
"""

import jax
import jax.numpy as jnp
from flax import nnx

from seqmodels.nn.linear import product
from seqmodels.ops import linear_recurrence


class DiagonalSystem(nnx.Module):
    """h_t = a h_{t−1} + b (B x_t),  y_t = Re(C h_t) + D x_t, with a, b [N] complex, given at each call.

    B: [N, D] and C: [D, N], complex, to start from; D starts normal. conjugates: h stands for pairs of
    conjugates of which it keeps one each, so that y_t = 2 Re(C h_t) + D x_t.
    """

    def __init__(self, B: jax.Array, C: jax.Array, *, conjugates: bool = False, rngs: nnx.Rngs):
        self.conjugates = conjugates
        # As real products: x [B_re, B_im] are the real and imaginary parts, and [h_re, −h_im] meet C's.
        self.B = nnx.Param(jnp.concatenate([B.real, B.imag]).T)
        self.C = nnx.Param(jnp.concatenate([C.real, C.imag], axis=1).T)
        self.D = nnx.Param(
            jax.random.normal(rngs.params(), self.B.shape[:1], jnp.float32), weight_decay=False
        )

    def __call__(
        self,
        x: jax.Array,
        a: jax.Array,
        b: jax.Array,
        hidden: jax.Array,
        *,
        segment_ids: jax.Array | None,
        method: str,
    ) -> tuple[jax.Array, jax.Array]:
        """x [B, T, D], a, b [N] complex, hidden [B, N, 2] float32 -> (y like x, hidden)."""
        parts = product(x, self.B[...].astype(x.dtype)).astype(jnp.float32)
        entering = b[None, None, :] * jax.lax.complex(*jnp.split(parts, 2, axis=-1))
        h, final = linear_recurrence(
            a[None, None, :],
            entering,
            initial_state=jax.lax.complex(hidden[..., 0], hidden[..., 1]),
            segment_ids=segment_ids,
            method=method,
        )
        h = 2.0 * h if self.conjugates else h
        read = jnp.concatenate([h.real, -h.imag], axis=-1).astype(x.dtype)
        y = product(read, self.C[...].astype(x.dtype)) + self.D[...].astype(x.dtype)[None, None, :] * x
        return y, jnp.stack([final.real, final.imag], axis=-1)

    def init_state(self, batch_size: int) -> jax.Array:
        """The empty state [B, N, 2] float32."""
        return jnp.zeros((batch_size, self.C.shape[0] // 2, 2), jnp.float32)

    def flops_per_token(self) -> int:
        """Of the maps and of the recurrence, 2 a real multiply-add."""
        size = self.C.shape[0] // 2
        # Complex: a h takes 6, b (B x) 6, their sum 2.
        return 2 * self.B.size + 2 * self.C.size + 2 * self.D.size + 14 * size


def complex_normal(shape: tuple[int, ...], std: float, rngs: nnx.Rngs) -> jax.Array:
    """complex64 with E|z|² = std², its real and imaginary parts independent."""
    return jax.lax.complex(*(std * 0.5**0.5 * jax.random.normal(rngs.params(), (2, *shape), jnp.float32)))
