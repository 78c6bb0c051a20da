"""The linear recurrent unit: diagonal complex dynamics, stable as they are written (Orvieto et al. 2023)."""

import math
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

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
from seqmodels.nn.diagonal_system import DiagonalSystem, complex_normal
from seqmodels.nn.gated_output import GatedOutput

RADIUS = (0.9, 0.999)
LARGEST_PHASE = math.pi / 10


class State(NamedTuple):
    """hidden [B, N, 2] float32, real and imaginary parts; last_id [B] int32."""

    hidden: jax.Array
    last_id: jax.Array


@register
class LRU(Mixer):
    """h_t = λ h_{t−1} + γ B x_t,  y_t = Re(C h_t) + D x_t, then GELU and a gated projection, with
    λ = exp(−e^ν + i e^θ) and γ = √(1 − |λ|²) (Orvieto et al. 2023, section 3).

    |λ|² starts uniform in [0.9², 0.999²] and the phase in [0, π/10]. γ keeps the size of h as |λ| changes;
    the paper lets it be learned, from the same start.

    Args:
      width: D. state_size: N complex numbers; None: D.
    """

    methods = ("sequential", "associative")

    def __init__(
        self,
        width: int,
        *,
        state_size: int | None = None,
        layer: int = 0,
        layers: int = 1,
        method: Literal["auto", "sequential", "associative"] = "auto",
        rngs: nnx.Rngs,
    ):
        check_choice("LRU.method", method, ("auto", *self.methods))
        check_positive("LRU", state_size=state_size)
        size = width if state_size is None else state_size
        self.method, self.layer = method, layer
        low, high = (radius**2 for radius in RADIUS)
        squared = jax.random.uniform(rngs.params(), size, jnp.float32, low, high)
        self.nu_log = nnx.Param(jnp.log(-0.5 * jnp.log(squared)), weight_decay=False)
        turn = 1.0 - jax.random.uniform(rngs.params(), size, jnp.float32)  # never 0, whose log is infinite
        self.theta_log = nnx.Param(jnp.log(LARGEST_PHASE * turn), weight_decay=False)
        self.system = DiagonalSystem(
            complex_normal((size, width), width**-0.5, rngs),
            complex_normal((width, size), (2 / size) ** 0.5, rngs),
            rngs=rngs,
        )
        self.output = GatedOutput(width, width, layers=layers, rngs=rngs)

    def __call__(self, x, *, segment_ids=None, state=None, rngs=None):
        state = self._begin(x, segment_ids, state)
        nu, theta = -self._log_decay(), jnp.exp(self.theta_log[...])
        y, hidden = self.system(
            x,
            jnp.exp(jax.lax.complex(-nu, theta)),
            jnp.sqrt(-jnp.expm1(-2.0 * nu)).astype(jnp.complex64),
            state.hidden,
            segment_ids=segment_ids,
            method=self.method,
        )
        return self.output(y), State(hidden, current_id(segment_ids, state.last_id))

    def _log_decay(self):
        """log |λ| [N]."""
        return -jnp.exp(self.nu_log[...])

    def log_decays(self, x, *, segment_ids=None):
        self._begin(x, segment_ids, None)
        return {"gate": at_every_token(self._log_decay(), x)}

    def init_state(self, batch_size, max_length, dtype=jnp.float32):
        return State(self.system.init_state(batch_size), jnp.zeros(batch_size, jnp.int32))

    def costs(self, length):
        flops = self.system.flops_per_token() + self.output.flops_per_token()
        return Costs(flops, state_elements(self, length))
