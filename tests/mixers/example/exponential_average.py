"""An exponential average of the past: the plainest mixer that keeps the contract, as an example."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from seqmodels.mixers.base import (
    Costs,
    Mixer,
    at_every_token,
    check_choice,
    current_id,
    register,
    state_elements,
)
from seqmodels.nn.linear import Linear, residual_std
from seqmodels.ops import linear_recurrence


class State(NamedTuple):
    """average [B, D] float32; last_id [B] int32."""

    average: jax.Array
    last_id: jax.Array


@register
class ExponentialAverage(Mixer):
    """h_t = a h_{t−1} + (1 − a) W_in x_t, y_t = W_out h_t, with a learned a = σ(λ) for each channel.

    Channels start with half-lives from 1 to 38 tokens. width: D.
    """

    methods = ("sequential", "associative")

    def __init__(
        self,
        width: int,
        *,
        layer: int = 0,
        layers: int = 1,
        method: Literal["auto", "sequential", "associative"] = "auto",
        rngs: nnx.Rngs,
    ):
        check_choice("ExponentialAverage.method", method, ("auto", *self.methods))
        self.layer, self.method = layer, method
        self.input = Linear(width, width, rngs=rngs)
        self.decay_bias = nnx.Param(jnp.linspace(0, 4, width, dtype=jnp.float32), weight_decay=False)
        self.output = Linear(width, width, std=residual_std(layers), rngs=rngs)

    def __call__(self, x, *, segment_ids=None, state=None, rngs=None):
        state = self._begin(x, segment_ids, state)
        bias = self.decay_bias[...][None, None, :]
        new = jax.nn.sigmoid(-bias) * self.input(x).astype(jnp.float32)
        h, average = linear_recurrence(
            jax.nn.sigmoid(bias),
            new,
            initial_state=state.average,
            segment_ids=segment_ids,
            method=self.method,
        )
        return self.output(h.astype(x.dtype)), State(average, current_id(segment_ids, state.last_id))

    def log_decays(self, x, *, segment_ids=None):
        self._begin(x, segment_ids, None)
        return {"gate": at_every_token(jax.nn.log_sigmoid(self.decay_bias[...]), x)}

    def init_state(self, batch_size, max_length, dtype=jnp.float32):
        average = jnp.zeros((batch_size, self.decay_bias.size), jnp.float32)
        return State(average, jnp.zeros(batch_size, jnp.int32))

    def costs(self, length):
        products = 2 * (self.input.kernel.size + self.output.kernel.size)
        recurrence = 2 * self.decay_bias.size
        return Costs(products + recurrence, state_elements(self, length))
