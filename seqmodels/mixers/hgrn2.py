"""HGRN2: a gated matrix memory that writes by as much as it forgets (Qin et al. 2024)."""

from typing import Literal

import jax
import jax.numpy as jnp
from flax import nnx

from seqmodels.mixers.base import (
    Costs,
    Mixer,
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

HEAD_DIM = 128


@register
class HGRN2(Mixer):
    """S_t = diag(f_t) S_{t−1} + (1 − f_t) v_tᵀ,  o_t = K^−½ SiLU(q_t)ᵀ S_t,  y_t = W_o RMSNorm(o_t), with the
    forget gate f = l + (1 − l) sigmoid(W_f x) of each key channel (Qin et al. 2024).

    The lower bound l = layer / layers makes deeper layers remember longer; it is fixed where the published
    learned bound starts, and the first layer has none.

    Args:
      width: D. heads: H. head_dim: K = V; left open, 128 or the width where that is smaller, and as many
        heads as fit in the width, at least 1.
      conv_width: W of a short convolution on q before its SiLU, on v and on what the gate reads; None: none.
      chunk_size: tokens a chunk of the chunked form.
    """

    methods = ("sequential", "associative", "chunked")

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
        method: Literal["auto", "sequential", "associative", "chunked"] = "auto",
        rngs: nnx.Rngs,
    ):
        check_choice("HGRN2.method", method, ("auto", *self.methods))
        self.heads, self.head_dim = heads_and_head_dim("HGRN2", width, heads, head_dim, HEAD_DIM)
        check_positive("HGRN2", conv_width=conv_width, chunk_size=chunk_size)
        self.method, self.chunk_size = method, chunk_size
        self.layer, self.layers = layer, layers
        channels = self.heads * self.head_dim
        self.query = Linear(width, channels, rngs=rngs)
        self.forget = Linear(width, channels, rngs=rngs)
        self.value = Linear(width, channels, rngs=rngs)
        self.convolutions = ShortConvolutions((channels,) * 3, conv_width, activation=False, rngs=rngs)
        self.output = HeadOutput(width, self.heads, self.head_dim, gate=None, layers=layers, rngs=rngs)

    def __call__(self, x, *, segment_ids=None, state=None, rngs=None):
        state = self._begin(x, segment_ids, state)
        (q, f, v), windows = self._streams(x, segment_ids, state)
        g, k = self._gates(f)
        o, memory = linear_attention(
            jax.nn.silu(q),
            k.astype(x.dtype),
            v,
            log_decay=g,
            initial_state=LinearAttentionState(state.memory),
            segment_ids=segment_ids,
            method=self.method,
            chunk_size=self.chunk_size,
        )
        last_id = current_id(segment_ids, state.last_id)
        return self.output(o, x), MatrixState(memory.kv, windows, last_id)

    def _streams(self, x, segment_ids, state):
        """(what makes q, f and v [B, T, H, K], the convolutions' windows)."""
        streams, windows = self.convolutions(
            (self.query(x), self.forget(x), self.value(x)), segment_ids=segment_ids, state=state.windows
        )
        return tuple(y.reshape(*x.shape[:2], self.heads, -1) for y in streams), windows

    def _gates(self, f):
        """(log f, 1 − f) in float32."""
        return gates(f.astype(jnp.float32), jnp.asarray(self.layer, jnp.float32) / self.layers)

    def log_decays(self, x, *, segment_ids=None):
        (_, f, _), _ = self._streams(x, segment_ids, self._begin(x, segment_ids, None))
        return {"gate": self._gates(f)[0]}

    def init_state(self, batch_size, max_length, dtype=jnp.float32):
        sizes = self.heads, self.head_dim, self.head_dim
        return empty_matrix_state(batch_size, *sizes, self.convolutions, dtype)

    def costs(self, length):
        products = sum(part.flops_per_token() for part in (self.query, self.forget, self.value, self.output))
        recurrence = decayed_recurrence_flops(self.heads, self.head_dim, self.head_dim)
        flops = products + self.convolutions.flops_per_token() + recurrence
        return Costs(flops, state_elements(self, length))


def gates(f: jax.Array, bound: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(log(l + (1 − l) sigmoid(f)), one minus that gate), for f float32 and a bound l, 0 <= l < 1."""
    bound = jnp.expand_dims(bound, tuple(range(f.ndim)))
    g = jnp.logaddexp(jnp.log(bound), jnp.log1p(-bound) + jax.nn.log_sigmoid(f))
    # Rounding may leave g a hair above 0. 1 − e^g from f itself keeps the digits of an open forget gate.
    return jnp.minimum(g, 0), (1 - bound) * jax.nn.sigmoid(-f)
