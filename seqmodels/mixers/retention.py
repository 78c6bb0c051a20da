"""Retention: a matrix memory that fades at a fixed rate, read by position (Sun et al. 2023)."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from seqmodels.mixers.base import (
    Costs,
    Mixer,
    at_every_token,
    check_choice,
    check_positive,
    current_id,
    current_position,
    heads_and_head_dim,
    positions,
    register,
    state_elements,
)
from seqmodels.mixers.matrix_state import decayed_recurrence_flops, empty_matrix_state
from seqmodels.nn.head_output import HeadOutput
from seqmodels.nn.linear import Linear
from seqmodels.nn.rotary import Rotary
from seqmodels.nn.short_convolution import ShortConvolutions
from seqmodels.ops import LinearAttentionState, linear_attention


class State(NamedTuple):
    """memory [B, H, K, V] float32; windows of the convolutions on q, k and v; position [B] int32: real tokens
    in the current document; last_id [B] int32.
    """

    memory: jax.Array
    windows: tuple[jax.Array, ...]
    position: jax.Array
    last_id: jax.Array


@register
class Retention(Mixer):
    """S_t = γ S_{t−1} + k_t v_tᵀ,  o_t = K^−½ q_tᵀ S_t,  y_t = W_o(RMSNorm(o_t) · SiLU(W_g x_t)),
    with q and k turned by their position and γ = 1 − 2^(−5−h) in head h = 0..H−1 (Sun et al. 2023).

    The published group norm of each head is an RMS norm with a scale here.

    Args:
      width: D. heads: H. head_dim: K, of q and k; `heads_and_head_dim` says what they are when left open.
      value_dim: V; None: 2K. rope_theta: see `nn.rotary.Rotary`.
      conv_width: W of a short convolution with SiLU on q, k and v; None: none.
      chunk_size: tokens a chunk of the chunked form.
    """

    methods = ("sequential", "associative", "chunked", "parallel")

    def __init__(
        self,
        width: int,
        *,
        heads: int | None = None,
        head_dim: int | None = None,
        value_dim: int | None = None,
        rope_theta: float = 10_000.0,
        conv_width: int | None = None,
        chunk_size: int = 64,
        layer: int = 0,
        layers: int = 1,
        method: Literal["auto", "sequential", "associative", "chunked", "parallel"] = "auto",
        rngs: nnx.Rngs,
    ):
        check_choice("Retention.method", method, ("auto", *self.methods))
        self.heads, self.key_dim = heads_and_head_dim("Retention", width, heads, head_dim)
        check_positive("Retention", value_dim=value_dim, conv_width=conv_width, chunk_size=chunk_size)
        self.value_dim = 2 * self.key_dim if value_dim is None else value_dim
        self.rotary = Rotary(rope_theta)
        self.rotary.check("Retention", self.key_dim)
        self.method, self.chunk_size, self.layer = method, chunk_size, layer
        keys, values = self.heads * self.key_dim, self.heads * self.value_dim
        self.query = Linear(width, keys, rngs=rngs)
        self.key = Linear(width, keys, rngs=rngs)
        self.value = Linear(width, values, rngs=rngs)
        self.convolutions = ShortConvolutions((keys, keys, values), conv_width, rngs=rngs)
        self.output = HeadOutput(width, self.heads, self.value_dim, gate="silu", layers=layers, rngs=rngs)

    def __call__(self, x, *, segment_ids=None, state=None, rngs=None):
        batch, length, _ = x.shape
        state = self._begin(x, segment_ids, state)
        streams, windows = self.convolutions(
            (self.query(x), self.key(x), self.value(x)), segment_ids=segment_ids, state=state.windows
        )
        q, k, v = (y.reshape(batch, length, self.heads, -1) for y in streams)
        places = positions(segment_ids, state.position, length)
        o, memory = linear_attention(
            self.rotary(q, places),
            self.rotary(k, places),
            v,
            log_decay=self._log_decay(),
            initial_state=LinearAttentionState(state.memory),
            segment_ids=segment_ids,
            method=self.method,
            chunk_size=self.chunk_size,
        )
        position = current_position(segment_ids, state.position, length)
        last_id = current_id(segment_ids, state.last_id)
        return self.output(o, x), State(memory.kv, windows, position, last_id)

    def _log_decay(self):
        return jnp.asarray(log_decays(self.heads), jnp.float32)

    def log_decays(self, x, *, segment_ids=None):
        self._begin(x, segment_ids, None)
        return {"gate": at_every_token(self._log_decay(), x)}

    def init_state(self, batch_size, max_length, dtype=jnp.float32):
        sizes = self.heads, self.key_dim, self.value_dim
        memory, windows, last_id = empty_matrix_state(batch_size, *sizes, self.convolutions, dtype)
        return State(memory, windows, jnp.zeros(batch_size, jnp.int32), last_id)

    def costs(self, length):
        products = sum(part.flops_per_token() for part in (self.query, self.key, self.value, self.output))
        recurrence = decayed_recurrence_flops(self.heads, self.key_dim, self.value_dim)
        flops = products + self.convolutions.flops_per_token() + recurrence
        return Costs(flops, state_elements(self, length))


def log_decays(heads: int) -> np.ndarray:
    """[H] float64: log γ of each head."""
    return np.log1p(-(2.0 ** (-5 - np.arange(heads))))
