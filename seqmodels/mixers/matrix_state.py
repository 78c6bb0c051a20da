"""The state of mixers whose memory is a matrix a head, [B, H, K, V], behind short convolutions."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from seqmodels.nn.short_convolution import ShortConvolutions


class MatrixState(NamedTuple):
    """memory [B, H, K, V] float32; windows of the convolutions, a stream each; last_id [B] int32."""

    memory: jax.Array
    windows: tuple[jax.Array, ...]
    last_id: jax.Array


def empty_matrix_state(
    batch_size: int, heads: int, key_dim: int, value_dim: int, convolutions: ShortConvolutions, dtype
) -> MatrixState:
    """What every document starts from; windows are in `dtype`."""
    return MatrixState(
        jnp.zeros((batch_size, heads, key_dim, value_dim), jnp.float32),
        convolutions.init_state(batch_size, dtype),
        jnp.zeros(batch_size, jnp.int32),
    )


def decayed_recurrence_flops(heads: int, key_dim: int, value_dim: int) -> int:
    """A token of S_t = diag(e^g) S_{t−1} + k vᵀ and q S_t: each element is decayed, written and read."""
    return (1 + 2 + 2) * heads * key_dim * value_dim
