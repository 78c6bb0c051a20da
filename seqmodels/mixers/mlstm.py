"""mLSTM, the matrix memory of xLSTM: exponential input gates and a normaliser (Beck et al. 2024)."""

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
    heads_and_head_dim,
    register,
    state_elements,
)
from seqmodels.mixers.matrix_state import decayed_recurrence_flops, empty_matrix_state
from seqmodels.nn.head_output import HeadOutput
from seqmodels.nn.linear import Linear
from seqmodels.nn.short_convolution import ShortConvolutions
from seqmodels.ops import LinearAttentionState, linear_attention, segments

GATE_CAP = 15.0
INPUT_BIAS = -10.0
FORGET_BIASES = (3.0, 6.0)
EPSILON = 1e-6


class Memory(NamedTuple):
    """C [B, H, K, V] and n [B, H, K], both times e^{m − 15}, and the stabiliser m [B, H]; float32."""

    C: jax.Array
    n: jax.Array
    m: jax.Array


class State(NamedTuple):
    """memory; windows of the convolutions on q and k; last_id [B] int32."""

    memory: Memory
    windows: tuple[jax.Array, ...]
    last_id: jax.Array


@register
class MLSTM(Mixer):
    """C_t = f' C_{t−1} + i' k_t v_tᵀ,  n_t = f' n_{t−1} + i' k_t,  q ← K^−½ q,
    h_t = C_tᵀ q_t / (max(|n_tᵀ q_t|, e^{−m_t}) + 1e-6),  y_t = W_o(RMSNorm(h_t) · sigmoid(W_g x_t)), with
    m_t = max(log σ(f_t) + m_{t−1}, i_t),  f' = e^{log σ(f_t) + m_{t−1} − m_t},  i' = e^{i_t − m_t}
    and C = n = m = 0 before every document (Beck et al. 2024).

    i and f, one each a head, are linear in x and softly capped at 15, as in the 7-billion-parameter model
    (Beck et al. 2025); the bias of i starts at −10, those of f from 3 to 6 over the heads.

    Args:
      width: D. heads: H. head_dim: K = V; `heads_and_head_dim` says what they are when left open.
      conv_width: W of a short convolution with SiLU on q and k; None: none.
      chunk_size: tokens a chunk of the chunked form.
    """

    methods = ("sequential", "associative", "chunked", "parallel")

    def __init__(
        self,
        width: int,
        *,
        heads: int | None = None,
        head_dim: int | None = None,
        conv_width: int | None = 4,
        chunk_size: int = 64,
        layer: int = 0,
        layers: int = 1,
        method: Literal["auto", "sequential", "associative", "chunked", "parallel"] = "auto",
        rngs: nnx.Rngs,
    ):
        check_choice("MLSTM.method", method, ("auto", *self.methods))
        self.heads, self.head_dim = heads_and_head_dim("MLSTM", width, heads, head_dim)
        check_positive("MLSTM", conv_width=conv_width, chunk_size=chunk_size)
        self.method, self.chunk_size, self.layer = method, chunk_size, layer
        channels = self.heads * self.head_dim
        self.query = Linear(width, channels, rngs=rngs)
        self.key = Linear(width, channels, rngs=rngs)
        self.value = Linear(width, channels, rngs=rngs)
        self.convolutions = ShortConvolutions((channels, channels), conv_width, rngs=rngs)
        self.gates = Linear(width, 2 * self.heads, rngs=rngs)
        biases = [jnp.full(self.heads, INPUT_BIAS), jnp.linspace(*FORGET_BIASES, self.heads)]
        self.gate_bias = nnx.Param(jnp.concatenate(biases, dtype=jnp.float32), weight_decay=False)
        self.output = HeadOutput(width, self.heads, self.head_dim, gate="sigmoid", layers=layers, rngs=rngs)

    def __call__(self, x, *, segment_ids=None, state=None, rngs=None):
        batch, length, _ = x.shape
        state = self._begin(x, segment_ids, state)
        (q, k), windows = self.convolutions(
            (self.query(x), self.key(x)), segment_ids=segment_ids, state=state.windows
        )
        q, k, v = (y.reshape(batch, length, self.heads, -1) for y in (q, k, self.value(x)))
        i, f = self._gates(x)
        h, memory = mlstm(
            q,
            k,
            v,
            i,
            f,
            state.memory,
            segment_ids=segment_ids,
            method=self.method,
            chunk_size=self.chunk_size,
        )
        last_id = current_id(segment_ids, state.last_id)
        return self.output(h, x), State(memory, windows, last_id)

    def _gates(self, x):
        """i and f before their exponential and sigmoid, float32 [B, T, H]."""
        gates = self.gates(x).astype(jnp.float32) + self.gate_bias[...][None, None, :]
        i, f = jnp.split(GATE_CAP * jnp.tanh(gates / GATE_CAP), 2, axis=-1)
        return i, f

    def log_decays(self, x, *, segment_ids=None):
        """log σ(f), by which C and n fade beside what is written. The stabiliser scales all of them alike,
        with f' = σ(f) e^{m_{t−1} − m_t} and i' = e^{i − m_t}, and cancels between C and n.
        """
        self._begin(x, segment_ids, None)
        _, f = self._gates(x)
        return {"gate": jax.nn.log_sigmoid(f)}

    def init_state(self, batch_size, max_length, dtype=jnp.float32):
        sizes = self.heads, self.head_dim, self.head_dim
        C, windows, last_id = empty_matrix_state(batch_size, *sizes, self.convolutions, dtype)
        memory = Memory(C, jnp.zeros(C.shape[:-1], C.dtype), jnp.zeros(C.shape[:2], C.dtype))
        return State(memory, windows, last_id)

    def costs(self, length):
        parts = (self.query, self.key, self.value, self.gates, self.output)
        # The normaliser is one more value channel.
        recurrence = decayed_recurrence_flops(self.heads, self.head_dim, self.head_dim + 1)
        flops = sum(part.flops_per_token() for part in parts) + self.convolutions.flops_per_token()
        return Costs(flops + recurrence, state_elements(self, length))


def mlstm(q, k, v, i, f, memory: Memory, *, segment_ids, method, chunk_size) -> tuple[jax.Array, Memory]:
    """h [B, T, H, V] and the memory after it; q, k [B, T, H, K], v [B, T, H, V], i and f [B, T, H] float32.

    i <= 15, so that e^{−15} bounds the sums as well as e^{−m} does: C and n are kept times e^{m − 15}, and
    decay by σ(f) itself. No exponent is above 0, and no difference of two m loses digits of a gate near 1.
    """
    log_forget = jax.nn.log_sigmoid(f)
    m = stabiliser(log_forget, i, memory.m, segment_ids)
    gate = jnp.exp(i - GATE_CAP).astype(k.dtype)
    o, after = linear_attention(
        q,
        k * gate[..., None],
        jnp.concatenate([v, jnp.ones_like(v[..., :1])], axis=-1),
        log_decay=log_forget,
        initial_state=LinearAttentionState(jnp.concatenate([memory.C, memory.n[..., None]], axis=-1)),
        segment_ids=segment_ids,
        method=method,
        chunk_size=chunk_size,
    )
    o = o.astype(jnp.float32)
    floor = jnp.maximum(jnp.abs(o[..., -1:]), jnp.exp(jnp.float32(-GATE_CAP)))
    h = o[..., :-1] / (floor + EPSILON * jnp.exp(m - GATE_CAP)[..., None])
    return h.astype(v.dtype), Memory(after.kv[..., :-1], after.kv[..., -1], m[:, -1])


def stabiliser(log_forget, i, before, segment_ids) -> jax.Array:
    """m_t = max(log_forget_t + m_{t−1}, i_t) [B, T, H]; `before` [B, H] comes before the row's first
    document, 0 before the others.
    """
    if segment_ids is None:
        border = jnp.zeros((1, i.shape[1], 1), bool)
    else:
        border = segments.starts(segment_ids)[..., None]
        real = (segment_ids != 0)[..., None]
        # At padding m stays as it is: nothing is added, and what is compared with is out of reach.
        log_forget, i = jnp.where(real, log_forget, 0), jnp.where(real, i, -1e30)
    i = jnp.where(border, jnp.maximum(log_forget, i), i)
    i = i.at[:, 0].set(jnp.maximum(log_forget[:, 0] + before, i[:, 0]))

    def compose(left, right):
        """m -> max(a + m, i) of `left` and then that of `right`, which forgets the left at a border."""
        (a_left, i_left, border_left), (a, i, border) = left, right
        return a_left + a, jnp.where(border, i, jnp.maximum(a + i_left, i)), border_left | border

    return jax.lax.associative_scan(compose, (log_forget, i, border), axis=1)[1]
