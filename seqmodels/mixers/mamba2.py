"""Mamba-2: a state space with one rate a head, which is linear attention with a decay (Dao and Gu 2024)."""

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
from seqmodels.mixers.matrix_state import MatrixState, decayed_recurrence_flops
from seqmodels.nn.linear import Linear, residual_std
from seqmodels.nn.norms import RMSNorm
from seqmodels.nn.short_convolution import ShortConvolution
from seqmodels.nn.time_steps import inverse_softplus_steps, log_rates
from seqmodels.ops import LinearAttentionState, linear_attention


@register
class Mamba2(Mixer):
    """z, x, B, C, dt = W_in u;  x, B, C ← SiLU(conv(x, B, C));  S_t = e^{dt_t A} S_{t−1} + B_t (dt_t x_t)ᵀ,
    y_t = C_tᵀ S_t + D x_t;  output W_out RMSNorm(y · SiLU(z)), with dt = softplus(dt + b) and a rate A < 0, a
    D and a dt for each head, B and C shared by all heads (Dao and Gu 2024).

    It is its block's feed-forward too. −A starts uniform in [1, 16] and dt log-uniform in [1e-3, 1e-1].

    Args:
      width: D. expand: E / D. head_dim: P, channels of x a head, a divisor of E. state_size: N.
      conv_width: W. chunk_size: tokens a chunk of the chunked form.
    """

    methods = ("sequential", "associative", "chunked", "parallel")
    feed_forward = False

    def __init__(
        self,
        width: int,
        *,
        expand: int = 2,
        head_dim: int = 64,
        state_size: int = 128,
        conv_width: int = 4,
        chunk_size: int = 64,
        layer: int = 0,
        layers: int = 1,
        method: Literal["auto", "sequential", "associative", "chunked", "parallel"] = "auto",
        rngs: nnx.Rngs,
    ):
        check_choice("Mamba2.method", method, ("auto", *self.methods))
        check_positive(
            "Mamba2",
            expand=expand,
            head_dim=head_dim,
            state_size=state_size,
            conv_width=conv_width,
            chunk_size=chunk_size,
        )
        inner = expand * width
        if inner % head_dim:
            raise InputError(f"Mamba2.head_dim is {head_dim}, which does not divide expand · width, {inner}.")
        self.heads, self.head_dim, self.state_size = inner // head_dim, head_dim, state_size
        self.method, self.chunk_size, self.layer = method, chunk_size, layer
        convolved = inner + 2 * state_size
        self.input = Linear(width, inner + convolved + self.heads, rngs=rngs)
        self.convolution = ShortConvolution(convolved, conv_width, bias=True, rngs=rngs)
        self.dt_bias = nnx.Param(inverse_softplus_steps(self.heads, rngs), weight_decay=False)
        self.A_log = nnx.Param(log_rates(self.heads, rngs), weight_decay=False)
        self.D = nnx.Param(jnp.ones(self.heads, jnp.float32), weight_decay=False)
        self.norm = RMSNorm(inner)
        self.output = Linear(inner, width, std=residual_std(layers), rngs=rngs)

    def __call__(self, x, *, segment_ids=None, state=None, rngs=None):
        state = self._begin(x, segment_ids, state)
        inner, N = self.heads * self.head_dim, self.state_size
        z, xBC, dt = self._projected(x)
        xBC, window = self.convolution(xBC, segment_ids=segment_ids, state=state.windows[0])
        x, B, C = jnp.split(xBC, (inner, inner + N), axis=-1)
        x = x.reshape(*x.shape[:2], self.heads, self.head_dim)
        y, memory = state_space(
            x,
            dt,
            self._rates(),
            B,
            C,
            self.D[...],
            state.memory,
            segment_ids=segment_ids,
            method=self.method,
            chunk_size=self.chunk_size,
        )
        y = self.norm(y.reshape(z.shape) * jax.nn.silu(z))
        return self.output(y), MatrixState(memory, (window,), current_id(segment_ids, state.last_id))

    def _projected(self, x):
        """z, x B C as they enter the convolution, and dt [B, T, H] in float32."""
        inner = self.heads * self.head_dim
        z, xBC, dt = jnp.split(self.input(x), (inner, 2 * inner + 2 * self.state_size), axis=-1)
        return z, xBC, jax.nn.softplus(dt.astype(jnp.float32) + self.dt_bias[...][None, None, :])

    def _rates(self):
        """A [H]."""
        return -jnp.exp(self.A_log[...])

    def log_decays(self, x, *, segment_ids=None):
        self._begin(x, segment_ids, None)
        _, _, dt = self._projected(x)
        return {"gate": dt * self._rates()[None, None]}

    def init_state(self, batch_size, max_length, dtype=jnp.float32):
        return MatrixState(
            jnp.zeros((batch_size, self.heads, self.state_size, self.head_dim), jnp.float32),
            (self.convolution.init_state(batch_size, dtype),),
            jnp.zeros(batch_size, jnp.int32),
        )

    def costs(self, length):
        products = self.input.flops_per_token() + self.output.flops_per_token()
        recurrence = decayed_recurrence_flops(self.heads, self.state_size, self.head_dim)
        skip = 2 * self.heads * self.head_dim  # D x
        flops = products + self.convolution.flops_per_token() + recurrence + skip
        return Costs(flops, state_elements(self, length))


def state_space(x, dt, A, B, C, D, memory, *, segment_ids, method, chunk_size) -> tuple[jax.Array, jax.Array]:
    """S_t = e^{dt_t A} S_{t−1} + B_t (dt_t x_t)ᵀ, y_t = C_tᵀ S_t + D x_t: linear attention without a scale.

    x [B, T, H, P]; dt [B, T, H] float32; A < 0 and D [H]; B, C [B, T, N]; memory [B, H, N, P]. Returns y like
    x, and the memory after it.
    """
    y, after = linear_attention(
        C[:, :, None, :],
        B[:, :, None, :],
        (dt[..., None] * x.astype(jnp.float32)).astype(x.dtype),
        log_decay=dt * A[None, None, :],
        scale=1.0,
        initial_state=LinearAttentionState(memory),
        segment_ids=segment_ids,
        method=method,
        chunk_size=chunk_size,
    )
    return y + D.astype(x.dtype)[None, None, :, None] * x, after.kv
