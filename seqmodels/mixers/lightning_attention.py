"""Lightning attention: linear attention that fades at a rate set by head and depth (Qin et al. 2024)."""

from typing import Literal

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
    heads_and_head_dim,
    register,
    state_elements,
)
from seqmodels.mixers.matrix_state import MatrixState, decayed_recurrence_flops, empty_matrix_state
from seqmodels.nn.head_output import HeadOutput
from seqmodels.nn.linear import Linear
from seqmodels.nn.short_convolution import ShortConvolutions
from seqmodels.ops import LinearAttentionState, linear_attention


@register
class LightningAttention(Mixer):
    """S_t = γ S_{t−1} + k_t v_tᵀ,  o_t = K^−½ q_tᵀ S_t,  y_t = W_o(RMSNorm(o_t) · sigmoid(W_g x_t)),
    with SiLU on q, k and v (Qin et al. 2024), and decays and gate as in MiniMax-01 (Li et al. 2025):
    log γ = −2^(−8(h+1)/H) · (1 − layer / (layers − 1) + 1e-5) in head h = 0..H−1. The last layer hardly
    forgets. The norm is that of each head.

    Args:
      width: D. heads: H. head_dim: K = V; `heads_and_head_dim` says what they are when left open.
      conv_width: W of a short convolution on q, k and v before their SiLU; None: none.
      chunk_size: tokens a chunk of the chunked form.
    """

    methods = ("sequential", "associative", "chunked", "parallel")

    def __init__(
        self,
        width: int,
        *,
        heads: int | None = None,
        head_dim: int | None = None,
        conv_width: int | None = None,
        chunk_size: int = 64,
        layer: int = 0,
        layers: int = 1,
        method: Literal["auto", "sequential", "associative", "chunked", "parallel"] = "auto",
        rngs: nnx.Rngs,
    ):
        check_choice("LightningAttention.method", method, ("auto", *self.methods))
        self.heads, self.head_dim = heads_and_head_dim("LightningAttention", width, heads, head_dim)
        check_positive("LightningAttention", conv_width=conv_width, chunk_size=chunk_size)
        self.method, self.chunk_size = method, chunk_size
        self.layer, self.layers = layer, layers
        channels = self.heads * self.head_dim
        self.query = Linear(width, channels, rngs=rngs)
        self.key = Linear(width, channels, rngs=rngs)
        self.value = Linear(width, channels, rngs=rngs)
        self.convolutions = ShortConvolutions((channels,) * 3, conv_width, activation=False, rngs=rngs)
        self.output = HeadOutput(width, self.heads, self.head_dim, gate="sigmoid", layers=layers, rngs=rngs)

    def __call__(self, x, *, segment_ids=None, state=None, rngs=None):
        batch, length, _ = x.shape
        state = self._begin(x, segment_ids, state)
        streams, windows = self.convolutions(
            (self.query(x), self.key(x), self.value(x)), segment_ids=segment_ids, state=state.windows
        )
        q, k, v = (jax.nn.silu(y).reshape(batch, length, self.heads, -1) for y in streams)
        o, memory = linear_attention(
            q,
            k,
            v,
            log_decay=self._log_decay(),
            initial_state=LinearAttentionState(state.memory),
            segment_ids=segment_ids,
            method=self.method,
            chunk_size=self.chunk_size,
        )
        last_id = current_id(segment_ids, state.last_id)
        return self.output(o, x), MatrixState(memory.kv, windows, last_id)

    def _log_decay(self):
        return log_decays(self.heads, self.layer, self.layers)

    def log_decays(self, x, *, segment_ids=None):
        self._begin(x, segment_ids, None)
        return {"gate": at_every_token(self._log_decay(), x)}

    def init_state(self, batch_size, max_length, dtype=jnp.float32):
        sizes = self.heads, self.head_dim, self.head_dim
        return empty_matrix_state(batch_size, *sizes, self.convolutions, dtype)

    def costs(self, length):
        products = sum(part.flops_per_token() for part in (self.query, self.key, self.value, self.output))
        recurrence = decayed_recurrence_flops(self.heads, self.head_dim, self.head_dim)
        flops = products + self.convolutions.flops_per_token() + recurrence
        return Costs(flops, state_elements(self, length))


def log_decays(heads: int, layer: int | jax.Array, layers: int) -> jax.Array:
    """[H] float32: log γ of each head; layer may be traced."""
    slopes = 2.0 ** (-8 * np.arange(1, heads + 1) / heads)
    # 1 − layer / (layers − 1 + 1e-5), over one denominator: no digit of the last layer's 1e-5 cancels.
    above = jnp.asarray(layers - 1 - layer, jnp.float32)
    depth = (above + 1e-5) / (layers - 1 + 1e-5) + 1e-5
    return -jnp.asarray(slopes, jnp.float32) * depth[None]
