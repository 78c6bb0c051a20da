"""S4D: a diagonal state space for every channel, a recurrence and a convolution at once (Gu et al. 2022)."""

import math
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from seqmodels.errors import InputError
from seqmodels.mixers.base import (
    Costs,
    Mixer,
    at_every_token,
    check_choice,
    check_positive,
    current_id,
    register,
    state_elements,
)
from seqmodels.nn.diagonal_system import complex_normal
from seqmodels.nn.gated_output import GatedOutput
from seqmodels.nn.time_steps import log_uniform_steps
from seqmodels.nn.zero_order_hold import zero_order_hold
from seqmodels.ops import diagonal_state_space


class State(NamedTuple):
    """hidden [B, D, N/2, 2] float32, real and imaginary parts; last_id [B] int32."""

    hidden: jax.Array
    last_id: jax.Array


@register
class S4D(Mixer):
    """h_t = e^{ΔA} h_{t−1} + x_t,  y_t = 2 Re(C A⁻¹(e^{ΔA} − 1)·h_t) + D x_t in each channel, then GELU and a
    gated projection over channels; the same as y = K ∗ x + D x with K_j = 2 Re(C A⁻¹(e^{ΔA} − 1)·e^{jΔA})
    (Gu et al. 2022, "On the Parameterization and Initialization of Diagonal State Space Models").

    A starts as −½ + iπn (S4D-Lin), its real part kept negative; C complex normal of variance 1; Δ, one for
    each channel, log-uniform in [1e-3, 1e-1].

    Args:
      width: D. state_size: N real numbers a channel, even: N/2 complex ones stand for conjugate pairs.
    """

    methods = ("sequential", "associative", "convolution")

    def __init__(
        self,
        width: int,
        *,
        state_size: int = 64,
        layer: int = 0,
        layers: int = 1,
        method: Literal["auto", "sequential", "associative", "convolution"] = "auto",
        rngs: nnx.Rngs,
    ):
        check_choice("S4D.method", method, ("auto", *self.methods))
        check_positive("S4D", state_size=state_size)
        if state_size % 2:
            raise InputError(
                f"S4D.state_size is {state_size}; its eigenvalues come in pairs, so it must be even."
            )
        self.method, self.layer = method, layer
        shape = (width, state_size // 2)
        turns = math.pi * jnp.arange(shape[1], dtype=jnp.float32)
        self.A_log = nnx.Param(jnp.full(shape, math.log(0.5), jnp.float32), weight_decay=False)
        self.A_imag = nnx.Param(jnp.broadcast_to(turns[None, :], shape), weight_decay=False)
        self.dt_log = nnx.Param(jnp.log(log_uniform_steps(width, rngs)), weight_decay=False)
        C = complex_normal(shape, 1.0, rngs)
        self.C = nnx.Param(jnp.stack([C.real, C.imag]))
        self.D = nnx.Param(jax.random.normal(rngs.params(), width, jnp.float32), weight_decay=False)
        self.output = GatedOutput(width, width, layers=layers, rngs=rngs)

    def __call__(self, x, *, segment_ids=None, state=None, rngs=None):
        alone = state is None
        state = self._begin(x, segment_ids, state)
        exponent, scale = self._held()
        wide = x.astype(jnp.float32)
        y, hidden = diagonal_state_space(
            wide,
            exponent,
            product(self.C[...], scale),
            initial_state=None if alone else jax.lax.complex(state.hidden[..., 0], state.hidden[..., 1]),
            segment_ids=segment_ids,
            method=self.method,
        )
        y = self.output((y + self.D[...][None, None, :] * wide).astype(x.dtype))
        hidden = jnp.stack([hidden.real, hidden.imag], axis=-1)
        return y, State(hidden, current_id(segment_ids, state.last_id))

    def _held(self):
        """(ΔA, what multiplies C), [D, N/2] complex."""
        rate = jax.lax.complex(-jnp.exp(self.A_log[...]), self.A_imag[...])
        return zero_order_hold(rate, jnp.exp(self.dt_log[...])[:, None])

    def log_decays(self, x, *, segment_ids=None):
        """Of every complex number of the state, [B, T, D, N/2]."""
        self._begin(x, segment_ids, None)
        return {"gate": at_every_token(self._held()[0].real, x)}

    def init_state(self, batch_size, max_length, dtype=jnp.float32):
        return State(
            jnp.zeros((batch_size, *self.A_log.shape, 2), jnp.float32), jnp.zeros(batch_size, jnp.int32)
        )

    def costs(self, length):
        # For each complex number of the state: its decay 6, its input 2, reading it 4, and what a step makes
        # out of the parameters, the decay and the held input's map, 32; and D x.
        recurrence = 44 * self.A_log.size + 2 * self.D.size
        return Costs(recurrence + self.output.flops_per_token(), state_elements(self, length))


def product(C: jax.Array, scale: jax.Array) -> jax.Array:
    """C [2, D, N/2], real and imaginary parts, times scale [D, N/2] complex."""
    real, imaginary = scale.real, scale.imag
    return jax.lax.complex(C[0] * real - C[1] * imaginary, C[0] * imaginary + C[1] * real)
