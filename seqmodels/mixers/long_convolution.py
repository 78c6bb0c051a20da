"""A causal convolution as long as the document: the control among the mixers, with no state of fixed size."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from seqmodels.mixers import kv_cache
from seqmodels.mixers.base import (
    Costs,
    Mixer,
    check_choice,
    check_positive,
    current_id,
    positions,
    register,
    state_elements,
)
from seqmodels.nn.linear import Linear, residual_std
from seqmodels.nn.positions import sinusoidal
from seqmodels.nn.short_convolution import ShortConvolutions
from seqmodels.nn.time_steps import log_uniform_steps
from seqmodels.ops import long_convolution

FEATURES = 16  # sines and cosines of the distance


class State(NamedTuple):
    """history [B, 1, S, D]: the filter's inputs in the current document, in slot = position, as a key/value
    cache of one group has them. windows: of the convolutions on q, k, v. position [B] int32: real tokens in
    the document. last_id [B] int32.
    """

    history: jax.Array
    windows: tuple[jax.Array, ...]
    position: jax.Array
    last_id: jax.Array


@register
class LongConvolution(Mixer):
    """y_t = W_o(q_t · Σ_{j≤t} f_{t−j} (k_j · v_j)), all products elementwise, with the filter
    f_n = e^{−λ n} (W_2 SiLU(W_1 φ(n) + b)) + D [n = 0] of the distance n alone and φ its sines and cosines.

    It is Hyena's operator of order 2 (Poli et al. 2023), with a window that any distance fits. The filter
    sees no content: only q, k and v do. Decoding keeps the whole document and reads all of it for each token.

    Args:
      width: D. hidden: inner width of the filter's network. conv_width: W of a short convolution with SiLU
      on q, k and v; None: none.
    """

    methods = ("blockwise", "fft")

    def __init__(
        self,
        width: int,
        *,
        hidden: int = 32,
        conv_width: int | None = None,
        layer: int = 0,
        layers: int = 1,
        method: Literal["auto", "blockwise", "fft"] = "auto",
        rngs: nnx.Rngs,
    ):
        check_choice("LongConvolution.method", method, ("auto", *self.methods))
        check_positive("LongConvolution", hidden=hidden, conv_width=conv_width)
        self.method, self.layer = method, layer
        self.query = Linear(width, width, rngs=rngs)
        self.key = Linear(width, width, rngs=rngs)
        self.value = Linear(width, width, rngs=rngs)
        self.convolutions = ShortConvolutions((width,) * 3, conv_width, rngs=rngs)
        self.filter_input = Linear(FEATURES, hidden, bias=True, std=FEATURES**-0.5, rngs=rngs)
        self.filter_output = Linear(hidden, width, std=hidden**-0.5, rngs=rngs)
        self.rate_log = nnx.Param(jnp.log(log_uniform_steps(width, rngs)), weight_decay=False)
        self.D = nnx.Param(jnp.ones(width, jnp.float32), weight_decay=False)
        self.output = Linear(width, width, std=residual_std(layers), rngs=rngs)

    def __call__(self, x, *, segment_ids=None, state=None, rngs=None):
        alone = state is None  # no history: convolve the tokens themselves
        state = self._begin(x, segment_ids, state, keep=("history",))
        streams = (self.query(x), self.key(x), self.value(x))
        (q, k, v), windows = self.convolutions(streams, segment_ids=segment_ids, state=state.windows)
        u = k * v
        places = positions(segment_ids, state.position, x.shape[1])
        capacity = state.history.shape[2]
        slots, position = kv_cache.slots_for(places, state.position, segment_ids, capacity, ring=False)
        history = kv_cache.written(state.history, u[:, None], slots)
        if alone:
            y = long_convolution(u, self.filter(x.shape[1]), segment_ids=segment_ids, method=self.method)
        elif x.shape[1] == 1:
            y = self._read(history, places).astype(x.dtype)
        else:
            y = self._convolve_both(u, state, segment_ids)
        if not alone:
            full = kv_cache.overflow(position, capacity, "history of LongConvolution")
            y = jnp.where(full[:, None, None], jnp.nan, y)
        after = State(history, windows, position, current_id(segment_ids, state.last_id))
        return self.output(q * y), after

    def filter(self, length: int) -> jax.Array:
        """[length, D] float32: f_n for n = 0 .. length − 1."""
        distances = jnp.arange(length, dtype=jnp.int32)
        network = self.filter_output(jax.nn.silu(self.filter_input(sinusoidal(distances[None], FEATURES)[0])))
        age = distances.astype(jnp.float32)[:, None] * jnp.exp(self.rate_log[...])[None, :]
        f = jnp.exp(-age) * network
        return f.at[0].add(self.D[...])

    def _read(self, history, places):
        """One token, already in the history: [B, 1, D] float32 from [B, 1, S, D] and its place [B, 1]."""
        slots = history.shape[2]
        # Backwards and with zeros behind it, the filter lies along the slots once it is cut at the place.
        backwards = jnp.pad(self.filter(slots)[::-1], ((0, slots - 1), (0, 0)))

        def row(row):
            history, place = row
            weights = jax.lax.dynamic_slice_in_dim(backwards, slots - 1 - place, slots)
            return (weights * history.astype(jnp.float32)).sum(axis=0)

        # Row by row: all at once, the cut filters would be gathered into an array of the history's size.
        return jax.lax.map(row, (history[:, 0], places[:, 0]))[:, None]

    def _convolve_both(self, u, state, segment_ids):
        """Several tokens, behind what the history held before them."""
        slots, length = state.history.shape[2], u.shape[1]
        first = current_id(None, state.last_id)[:, None]
        ids = jnp.broadcast_to(first, u.shape[:2]) if segment_ids is None else segment_ids
        used = jnp.arange(slots, dtype=jnp.int32)[None, :] < state.position[:, None]
        y = long_convolution(
            jnp.concatenate([state.history[:, 0].astype(u.dtype), u], axis=1),
            self.filter(slots + length),
            segment_ids=jnp.concatenate([jnp.where(used, first, 0), ids], axis=1),
            method=self.method,
        )
        return y[:, slots:]

    def init_state(self, batch_size, max_length, dtype=jnp.float32):
        return State(
            history=jnp.zeros((batch_size, 1, max_length, self.D.shape[0]), dtype),
            windows=self.convolutions.init_state(batch_size, dtype),
            position=jnp.zeros(batch_size, jnp.int32),
            last_id=jnp.zeros(batch_size, jnp.int32),
        )

    def costs(self, length):
        linears = (self.query, self.key, self.value, self.output)
        products = sum(linear.flops_per_token() for linear in linears)
        # A step makes the filter at every distance, its window 2 a channel, and reads the history with it.
        network = self.filter_input.flops_per_token() + self.filter_output.flops_per_token()
        reading = length * (network + 4 * self.D.size)
        return Costs(products + self.convolutions.flops_per_token() + reading, state_elements(self, length))
