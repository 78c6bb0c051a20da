"""RG-LRU: a gated diagonal recurrence with real decays, inside Griffin's recurrent block (De et al. 2024)."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from seqmodels.errors import InputError
from seqmodels.mixers.base import (
    DEFAULT_HEAD_DIM,
    Costs,
    Mixer,
    check_choice,
    check_positive,
    current_id,
    register,
    state_elements,
)
from seqmodels.nn.linear import Linear, residual_std
from seqmodels.nn.short_convolution import ShortConvolution
from seqmodels.ops import linear_recurrence, segments

GATE_POWER = 8.0  # c of the paper's equation 4: at a full gate the decay is ρ⁸
DECAY_RANGE = (0.9, 0.999)
LARGEST_SLOPE = 1000.0


class State(NamedTuple):
    """hidden [B, E] float32; window [B, W-1, E] of the convolution; last_id [B] int32."""

    hidden: jax.Array
    window: jax.Array
    last_id: jax.Array


class BlockDiagonal(nnx.Module):
    """y = W x + b where W connects each of `blocks` equal parts of the channels with itself alone.

    The sum is float32 whatever the dtype of x: a gate follows. W is drawn as in the paper, with the variance
    1/inputs of a block.
    """

    def __init__(self, channels: int, blocks: int, *, rngs: nnx.Rngs):
        size = channels // blocks
        kernel = jax.random.normal(rngs.params(), (blocks, size, size), jnp.float32)
        self.kernel = nnx.Param(size**-0.5 * kernel)
        self.bias = nnx.Param(jnp.zeros(channels, jnp.float32), weight_decay=False)

    def __call__(self, x: jax.Array) -> jax.Array:
        """[B, T, E] -> [B, T, E] float32."""
        parts = x.reshape(*x.shape[:2], self.kernel.shape[0], -1)
        y = jnp.einsum("bthi,hio->btho", parts, self.kernel[...].astype(x.dtype))
        return y.reshape(x.shape).astype(jnp.float32) + self.bias[...][None, None, :]


@register
class RGLRU(Mixer):
    """x ← conv(W_x u);  r_t, i_t = σ(block-diagonal maps of x_t);  log a_t = −8 r_t softplus(Λ);
    h_t = a_t h_{t−1} + √(1 − a_t²) i_t x_t;  output W_out(GELU(W_y u) · h_t)
    (De et al. 2024, sections 2.3 and 2.4). A document's first token enters whole: a = 0 and the root is 1.

    ρ = e^{−softplus(Λ)} starts with ρ² uniform in [0.9², 0.999²]. The root's slope is bounded by 1000, as in
    the published code: it has none at a = 1.

    Args:
      width: D. recurrence_width: E; None: D. heads: blocks of the gates' maps; None: one for every 64
        channels, or the next smaller number that divides E. conv_width: W.
    """

    methods = ("sequential", "associative")

    def __init__(
        self,
        width: int,
        *,
        recurrence_width: int | None = None,
        heads: int | None = None,
        conv_width: int = 4,
        layer: int = 0,
        layers: int = 1,
        method: Literal["auto", "sequential", "associative"] = "auto",
        rngs: nnx.Rngs,
    ):
        check_choice("RGLRU.method", method, ("auto", *self.methods))
        check_positive("RGLRU", recurrence_width=recurrence_width, heads=heads, conv_width=conv_width)
        inner = width if recurrence_width is None else recurrence_width
        if heads is None:
            heads = next(n for n in range(max(1, inner // DEFAULT_HEAD_DIM), 0, -1) if inner % n == 0)
        if inner % heads:
            raise InputError(
                f"RGLRU.heads is {heads}, which does not divide the width of the recurrence, {inner}; choose "
                "a divisor."
            )
        self.method, self.layer = method, layer
        self.gate = Linear(width, inner, rngs=rngs)
        self.input = Linear(width, inner, rngs=rngs)
        self.convolution = ShortConvolution(inner, conv_width, bias=True, activation=False, rngs=rngs)
        self.recurrence_gate = BlockDiagonal(inner, heads, rngs=rngs)
        self.input_gate = BlockDiagonal(inner, heads, rngs=rngs)
        self.Lambda = nnx.Param(initial_lambda(inner, rngs), weight_decay=False)
        self.output = Linear(inner, width, std=residual_std(layers), rngs=rngs)

    def __call__(self, x, *, segment_ids=None, state=None, rngs=None):
        state = self._begin(x, segment_ids, state)
        y = jax.nn.gelu(self.gate(x))
        x, r, window = self._convolved(x, segment_ids, state)
        h, hidden = gated_recurrence(
            x.astype(jnp.float32),
            r,
            jax.nn.sigmoid(self.input_gate(x)),
            self.Lambda[...],
            first_tokens(segment_ids, state.last_id == 0, x.shape[1]),
            initial_state=state.hidden,
            segment_ids=segment_ids,
            method=self.method,
        )
        y = self.output(y * h.astype(y.dtype))
        return y, State(hidden, window, current_id(segment_ids, state.last_id))

    def _convolved(self, x, segment_ids, state):
        """x after its convolution, r in float32, both [B, T, E], and the convolution's window."""
        x, window = self.convolution(self.input(x), segment_ids=segment_ids, state=state.window)
        return x, jax.nn.sigmoid(self.recurrence_gate(x)), window

    def log_decays(self, x, *, segment_ids=None):
        _, r, _ = self._convolved(x, segment_ids, self._begin(x, segment_ids, None))
        return {"gate": log_decay(r, self.Lambda[...])}

    def init_state(self, batch_size, max_length, dtype=jnp.float32):
        return State(
            jnp.zeros((batch_size, self.Lambda.shape[0]), jnp.float32),
            self.convolution.init_state(batch_size, dtype),
            jnp.zeros(batch_size, jnp.int32),
        )

    def costs(self, length):
        linears = (self.gate, self.input, self.output)
        products = sum(linear.flops_per_token() for linear in linears)
        gates = 2 * self.recurrence_gate.kernel.size + 2 * self.input_gate.kernel.size
        recurrence = 2 * self.Lambda.size
        flops = products + gates + self.convolution.flops_per_token() + recurrence
        return Costs(flops, state_elements(self, length))


def gated_recurrence(x, r, i, Lambda, first, *, initial_state, segment_ids, method):
    """(h [B, T, E], the final state [B, E]) of the RG-LRU, all float32.

    x, r, i: [B, T, E]. Lambda: [E]. first: [B, T] bool, the tokens that begin a document. What came before
    them is forgotten by `linear_recurrence`, or is the empty state: here they need the root alone to be 1.
    """
    log_a = log_decay(r, Lambda)
    root = jnp.where(first[:, :, None], 1.0, bounded_sqrt(-jnp.expm1(2.0 * log_a)))
    return linear_recurrence(
        jnp.exp(log_a),
        root * (i * x),
        initial_state=initial_state,
        segment_ids=segment_ids,
        method=method,
    )


def log_decay(r: jax.Array, Lambda: jax.Array) -> jax.Array:
    """log a [B, T, E] of a gate r [B, T, E] and Λ [E]."""
    return -GATE_POWER * r * jax.nn.softplus(Lambda)[None, None, :]


def first_tokens(segment_ids: jax.Array | None, empty: jax.Array, length: int) -> jax.Array:
    """[B, T] bool: each document's first token; the row's first real one where its state is `empty` [B]."""
    if segment_ids is None:
        return empty[:, None] & (jnp.arange(length) == 0)[None, :]
    real = segment_ids != 0
    begins = real & (jnp.cumsum(real, axis=1) == 1)
    return segments.starts(segment_ids) | (begins & empty[:, None])


@jax.custom_jvp
def bounded_sqrt(u: jax.Array) -> jax.Array:
    """√u for u ≥ 0, with a derivative of at most 1000."""
    return jnp.sqrt(u)


@bounded_sqrt.defjvp
def _bounded_sqrt_jvp(primals, tangents):
    (u,), (du,) = primals, tangents
    return bounded_sqrt(u), du * 0.5 * jax.lax.rsqrt(jnp.maximum(u, 0.25 * LARGEST_SLOPE**-2))


def initial_lambda(channels: int, rngs: nnx.Rngs) -> jax.Array:
    """[E] float32: ρ = e^{−softplus(Λ)} lies in [0.9, 0.999] and is uniform in area, as a radius would be."""
    low, high = (decay**2 for decay in DECAY_RANGE)
    squared = jax.random.uniform(rngs.params(), channels, jnp.float32, low, high)
    return jnp.log(jnp.expm1(-0.5 * jnp.log(squared)))
