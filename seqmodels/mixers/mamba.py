"""Mamba: a selective state space between a short convolution and a gate (Gu and Dao 2023)."""

import math
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from seqmodels.mixers.base import (
    Costs,
    Mixer,
    check_choice,
    check_positive,
    current_id,
    register,
    state_elements,
)
from seqmodels.nn.linear import Linear, product, residual_std
from seqmodels.nn.short_convolution import ShortConvolution
from seqmodels.nn.time_steps import inverse_softplus_steps
from seqmodels.ops import selective_scan


class State(NamedTuple):
    """scan [B, E, N] float32; window [B, W-1, E] of the convolution; last_id [B] int32."""

    scan: jax.Array
    window: jax.Array
    last_id: jax.Array


@register
class Mamba(Mixer):
    """x, z = W_in u;  x ← SiLU(conv x);  h_t = e^{dt_t A} h_{t−1} + dt_t B_t x_t;  y_t = C_t·h_t + D x_t;
    output W_out(y · SiLU(z)), with dt = softplus(W_dt W_r x + b) and B, C linear in x.

    It is its block's feed-forward too. A starts as −(1..N) in every channel and dt log-uniform in
    [1e-3, 1e-1], as in the paper's section 3.6.

    Args:
      width: D. expand: E / D. state_size: N. conv_width: W. dt_rank: rank of W_dt; None: ⌈D/16⌉.
      chunk_size: tokens a chunk of the chunked form.
    """

    methods = ("sequential", "associative", "chunked")
    feed_forward = False

    def __init__(
        self,
        width: int,
        *,
        expand: int = 2,
        state_size: int = 16,
        conv_width: int = 4,
        dt_rank: int | None = None,
        chunk_size: int = 32,
        layer: int = 0,
        layers: int = 1,
        method: Literal["auto", "sequential", "associative", "chunked"] = "auto",
        rngs: nnx.Rngs,
    ):
        check_choice("Mamba.method", method, ("auto", *self.methods))
        if dt_rank is None:
            dt_rank = math.ceil(width / 16)
        check_positive(
            "Mamba",
            expand=expand,
            state_size=state_size,
            conv_width=conv_width,
            dt_rank=dt_rank,
            chunk_size=chunk_size,
        )
        inner = expand * width
        self.state_size, self.dt_rank = state_size, dt_rank
        self.method, self.chunk_size, self.layer = method, chunk_size, layer
        self.input = Linear(width, 2 * inner, rngs=rngs)
        self.convolution = ShortConvolution(inner, conv_width, bias=True, rngs=rngs)
        self.selection = Linear(inner, dt_rank + 2 * state_size, rngs=rngs)
        bound = dt_rank**-0.5
        dt_kernel = jax.random.uniform(rngs.params(), (dt_rank, inner), jnp.float32, -bound, bound)
        self.dt_kernel = nnx.Param(dt_kernel)
        self.dt_bias = nnx.Param(inverse_softplus_steps(inner, rngs), weight_decay=False)
        rates = jnp.broadcast_to(
            jnp.arange(1, state_size + 1, dtype=jnp.float32)[None, :], (inner, state_size)
        )
        self.A_log = nnx.Param(jnp.log(rates), weight_decay=False)
        self.D = nnx.Param(jnp.ones(inner, jnp.float32), weight_decay=False)
        self.output = Linear(inner, width, std=residual_std(layers), rngs=rngs)

    def __call__(self, x, *, segment_ids=None, state=None, rngs=None):
        state = self._begin(x, segment_ids, state)
        x, z, dt, B, C, window = self._selected(x, segment_ids, state)
        y, scan = selective_scan(
            x,
            dt,
            self._rates(),
            B,
            C,
            self.D[...],
            initial_state=state.scan,
            segment_ids=segment_ids,
            method=self.method,
            chunk_size=self.chunk_size,
        )
        y = self.output(y * jax.nn.silu(z))
        return y, State(scan, window, current_id(segment_ids, state.last_id))

    def _selected(self, x, segment_ids, state):
        """x after its convolution, z, dt in float32, B, C, and the convolution's window."""
        x, z = jnp.split(self.input(x), 2, axis=-1)
        x, window = self.convolution(x, segment_ids=segment_ids, state=state.window)
        low_rank, B, C = jnp.split(self.selection(x), (self.dt_rank, self.dt_rank + self.state_size), axis=-1)
        dt = product(low_rank, self.dt_kernel[...].astype(x.dtype))
        dt = jax.nn.softplus(dt.astype(jnp.float32) + self.dt_bias[...][None, None, :])
        return x, z, dt, B, C, window

    def _rates(self):
        """A [E, N]."""
        return -jnp.exp(self.A_log[...])

    def log_decays(self, x, *, segment_ids=None):
        """Of every number of the state, [B, T, E, N]."""
        _, _, dt, *_ = self._selected(x, segment_ids, self._begin(x, segment_ids, None))
        return {"gate": dt[..., None] * self._rates()[None, None]}

    def init_state(self, batch_size, max_length, dtype=jnp.float32):
        return State(
            jnp.zeros((batch_size, *self.A_log.shape), jnp.float32),
            self.convolution.init_state(batch_size, dtype),
            jnp.zeros(batch_size, jnp.int32),
        )

    def costs(self, length):
        kernels = (self.input.kernel, self.selection.kernel, self.dt_kernel, self.output.kernel)
        products = sum(2 * kernel.size for kernel in kernels)
        # For each element of the state: dt·A, dt·x·B, the decay's multiply-add and the reading one; and D x.
        recurrence = 6 * self.A_log.size + 2 * self.D.size
        flops = products + self.convolution.flops_per_token() + recurrence
        return Costs(flops, state_elements(self, length))
