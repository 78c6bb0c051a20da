"""Gated linear attention: its input says how fast each key channel forgets (Yang et al. 2023)."""

from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx

from seqmodels.errors import InputError
from seqmodels.mixers.base import (
    Costs,
    Mixer,
    check_choice,
    check_positive,
    current_id,
    register,
    state_elements,
)
from seqmodels.mixers.matrix_state import MatrixState, decayed_recurrence_flops, empty_matrix_state
from seqmodels.nn.head_output import HeadOutput
from seqmodels.nn.linear import Linear
from seqmodels.nn.low_rank import LowRank
from seqmodels.nn.short_convolution import ShortConvolutions
from seqmodels.ops import LinearAttentionState, linear_attention

# The gate's logarithm is divided by this, so that a gate of ½ halves a channel in 16 tokens.
TEMPERATURE = 16.0


@register
class GatedLinearAttention(Mixer):
    """S_t = diag(e^{g_t}) S_{t−1} + k_t v_tᵀ,  o_t = K^−½ q_tᵀ S_t,  y_t = W_o(RMSNorm(o_t) · SiLU(W_g x_t)),
    with g = log sigmoid(W_2 W_1 x + b) / 16 for each key channel (Yang et al. 2023).

    Args:
      width: D. heads: H, a divisor of D/2 as it stands: all heads together have D/2 key and D value channels.
      gate_rank: rows of W_2. conv_width: W of a short convolution with SiLU on q, k and v; None: none.
      chunk_size: tokens a chunk of the chunked form.
    """

    methods = ("sequential", "associative", "chunked")

    def __init__(
        self,
        width: int,
        *,
        heads: int = 4,
        gate_rank: int = 16,
        conv_width: int | None = None,
        chunk_size: int = 64,
        layer: int = 0,
        layers: int = 1,
        method: Literal["auto", "sequential", "associative", "chunked"] = "auto",
        rngs: nnx.Rngs,
    ):
        check_choice("GatedLinearAttention.method", method, ("auto", *self.methods))
        check_positive(
            "GatedLinearAttention",
            heads=heads,
            gate_rank=gate_rank,
            conv_width=conv_width,
            chunk_size=chunk_size,
        )
        if width % (2 * heads):
            raise InputError(
                f"GatedLinearAttention.heads is {heads}, which does not divide half the width, {width / 2:g}."
            )
        self.heads, self.key_dim, self.value_dim = heads, width // (2 * heads), width // heads
        self.method, self.chunk_size, self.layer = method, chunk_size, layer
        keys = heads * self.key_dim
        self.query = Linear(width, keys, rngs=rngs)
        self.key = Linear(width, keys, rngs=rngs)
        self.value = Linear(width, width, rngs=rngs)
        self.forget = LowRank(width, gate_rank, keys, bias=True, rngs=rngs)
        self.convolutions = ShortConvolutions((keys, keys, width), conv_width, rngs=rngs)
        self.output = HeadOutput(width, heads, self.value_dim, gate="silu", layers=layers, rngs=rngs)

    def __call__(self, x, *, segment_ids=None, state=None, rngs=None):
        batch, length, _ = x.shape
        state = self._begin(x, segment_ids, state)
        streams, windows = self.convolutions(
            (self.query(x), self.key(x), self.value(x)), segment_ids=segment_ids, state=state.windows
        )
        q, k, v = (y.reshape(batch, length, self.heads, -1) for y in streams)
        o, memory = linear_attention(
            q,
            k,
            v,
            log_decay=self._log_decay(x),
            initial_state=LinearAttentionState(state.memory),
            segment_ids=segment_ids,
            method=self.method,
            chunk_size=self.chunk_size,
        )
        last_id = current_id(segment_ids, state.last_id)
        return self.output(o, x), MatrixState(memory.kv, windows, last_id)

    def _log_decay(self, x):
        """g in float32, [B, T, H, K]."""
        g = jax.nn.log_sigmoid(self.forget(x)) / TEMPERATURE
        return g.reshape(*x.shape[:2], self.heads, -1)

    def log_decays(self, x, *, segment_ids=None):
        self._begin(x, segment_ids, None)
        return {"gate": self._log_decay(x)}

    def init_state(self, batch_size, max_length, dtype=jnp.float32):
        sizes = self.heads, self.key_dim, self.value_dim
        return empty_matrix_state(batch_size, *sizes, self.convolutions, dtype)

    def costs(self, length):
        parts = (self.query, self.key, self.value, self.forget, self.output)
        recurrence = decayed_recurrence_flops(self.heads, self.key_dim, self.value_dim)
        flops = sum(part.flops_per_token() for part in parts) + self.convolutions.flops_per_token()
        return Costs(flops + recurrence, state_elements(self, length))
