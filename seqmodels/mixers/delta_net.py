"""The delta rule as a memory: what a token writes replaces what its key read before.

DeltaNet (Yang et al. 2024), Gated DeltaNet (Yang, Kautz and Hatamizadeh 2025), whose memory also fades, and
Kimi Delta Attention (Kimi team 2025), in which each key channel fades at its own rate.
"""

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
from seqmodels.mixers.matrix_state import MatrixState, empty_matrix_state
from seqmodels.mixers.rank_one_decay import delta_log_decays
from seqmodels.nn.head_output import HeadOutput
from seqmodels.nn.linear import Linear
from seqmodels.nn.low_rank import LowRank
from seqmodels.nn.norms import l2_norm
from seqmodels.nn.short_convolution import ShortConvolutions
from seqmodels.nn.time_steps import inverse_softplus_steps, log_rates
from seqmodels.ops import delta_rule

Method = Literal["auto", "sequential", "chunked"]
KIMI_HEAD_DIM = 128
# The lowest log-decay of Kimi Delta Attention's safe gate.
SAFE_BOUND = -5.0


class DeltaMemory(Mixer):
    """S̃ = diag(e^{g_t}) S_{t−1},  S_t = S̃ + β_t k_t (v_t − k_tᵀ S̃)ᵀ,  o_t = K^−½ q_tᵀ S_t,
    y_t = W_o(RMSNorm(o_t) · gate(W_g x_t)): all three mixers, which differ in g and in the gate.

    q, k and v are SiLU of short convolutions, q and k then of length 1; β = sigmoid(W_β x).
    """

    methods = ("sequential", "chunked")

    def __init__(
        self,
        width: int,
        heads: int,
        key_dim: int,
        value_dim: int,
        *,
        gate: Literal["silu", "sigmoid"] | None = None,
        gate_rank: int | None = None,
        negative_eigenvalues: bool,
        conv_width: int,
        chunk_size: int,
        layer: int,
        layers: int,
        method: Method,
        rngs: nnx.Rngs,
    ):
        name = type(self).__name__
        check_choice(f"{name}.method", method, ("auto", *self.methods))
        check_positive(name, conv_width=conv_width, chunk_size=chunk_size)
        self.heads, self.key_dim, self.value_dim = heads, key_dim, value_dim
        self.negative_eigenvalues = negative_eigenvalues
        self.method, self.chunk_size, self.layer = method, chunk_size, layer
        keys, values = heads * key_dim, heads * value_dim
        self.query = Linear(width, keys, rngs=rngs)
        self.key = Linear(width, keys, rngs=rngs)
        self.value = Linear(width, values, rngs=rngs)
        self.beta = Linear(width, heads, rngs=rngs)
        self.convolutions = ShortConvolutions((keys, keys, values), conv_width, rngs=rngs)
        self.output = HeadOutput(
            width, heads, value_dim, gate=gate, gate_rank=gate_rank, layers=layers, rngs=rngs
        )

    def __call__(self, x, *, segment_ids=None, state=None, rngs=None):
        state = self._begin(x, segment_ids, state)
        (q, k, v), windows = self._streams(x, segment_ids, state)
        o, memory = delta_rule(
            q,
            k,
            v,
            self._beta(x),
            log_decay=self._log_decay(x),
            initial_state=state.memory,
            segment_ids=segment_ids,
            method=self.method,
            chunk_size=self.chunk_size,
        )
        last_id = current_id(segment_ids, state.last_id)
        return self.output(o, x), MatrixState(memory, windows, last_id)

    def _streams(self, x, segment_ids, state):
        """(q and k of length 1 and v, [B, T, H, ·], the convolutions' windows)."""
        streams, windows = self.convolutions(
            (self.query(x), self.key(x), self.value(x)), segment_ids=segment_ids, state=state.windows
        )
        q, k, v = (y.reshape(*x.shape[:2], self.heads, -1) for y in streams)
        return (l2_norm(q), l2_norm(k), v), windows

    def _beta(self, x):
        """β in float32, [B, T, H]."""
        beta = jax.nn.sigmoid(self.beta(x, dtype=jnp.float32))
        return 2 * beta if self.negative_eigenvalues else beta

    def _log_decay(self, x):
        """g in float32, [B, T, H] or [B, T, H, K]; None: nothing fades."""
        return None

    def log_decays(self, x, *, segment_ids=None):
        (_, k, _), _ = self._streams(x, segment_ids, self._begin(x, segment_ids, None))
        beta, g = self._beta(x), self._log_decay(x)
        gate = {} if g is None else {"gate": g}
        g = jnp.zeros_like(beta) if g is None else g
        by_channel = g if g.ndim == k.ndim else g[..., None]
        return gate | delta_log_decays(by_channel, k.astype(jnp.float32), beta)

    def init_state(self, batch_size, max_length, dtype=jnp.float32):
        sizes = self.heads, self.key_dim, self.value_dim
        return empty_matrix_state(batch_size, *sizes, self.convolutions, dtype)

    def costs(self, length):
        parts = [self.query, self.key, self.value, self.beta, self.output]
        decays = hasattr(self, "decay")
        parts += [self.decay] if decays else []
        products = sum(part.flops_per_token() for part in parts) + self.convolutions.flops_per_token()
        # Read by k, written and read by q: a multiply-add each for an element of the memory; and its decay.
        recurrence = (6 + decays) * self.heads * self.key_dim * self.value_dim
        return Costs(products + recurrence, state_elements(self, length))


@register
class DeltaNet(DeltaMemory):
    """S_t = S_{t−1} + β_t k_t (v_t − k_tᵀ S_{t−1})ᵀ,  o_t = K^−½ q_tᵀ S_t,  y_t = W_o RMSNorm(o_t)
    (Schlag et al. 2021, in the form of Yang et al. 2024).

    Args:
      width: D. heads: H. head_dim: K = V; `heads_and_head_dim` says what they are when left open.
      negative_eigenvalues: β goes to 2 instead of 1, and I − β k kᵀ down to −1 (Grazzi et al. 2024).
      conv_width: W. chunk_size: tokens a chunk of the chunked form.
    """

    def __init__(
        self,
        width: int,
        *,
        heads: int | None = None,
        head_dim: int | None = None,
        negative_eigenvalues: bool = False,
        conv_width: int = 4,
        chunk_size: int = 32,
        layer: int = 0,
        layers: int = 1,
        method: Method = "auto",
        rngs: nnx.Rngs,
    ):
        heads, head_dim = heads_and_head_dim("DeltaNet", width, heads, head_dim)
        super().__init__(
            width,
            heads,
            head_dim,
            head_dim,
            negative_eigenvalues=negative_eigenvalues,
            conv_width=conv_width,
            chunk_size=chunk_size,
            layer=layer,
            layers=layers,
            method=method,
            rngs=rngs,
        )


@register
class GatedDeltaNet(DeltaMemory):
    """DeltaNet whose memory fades first, S̃ = e^{g_t} S_{t−1} with g = −A softplus(W_a x + b) in a head, and
    y_t = W_o(RMSNorm(o_t) · SiLU(W_g x_t)) (Yang, Kautz and Hatamizadeh 2025).

    A starts uniform in [1, 16], softplus(b) log-uniform in [1e-3, 1e-1].

    Args:
      width: D. heads: H. head_dim: K; `heads_and_head_dim` says what they are when left open.
      value_dim: V; None: 2K. negative_eigenvalues: β goes to 2 instead of 1.
      conv_width: W. chunk_size: tokens a chunk of the chunked form.
    """

    def __init__(
        self,
        width: int,
        *,
        heads: int | None = None,
        head_dim: int | None = None,
        value_dim: int | None = None,
        negative_eigenvalues: bool = False,
        conv_width: int = 4,
        chunk_size: int = 32,
        layer: int = 0,
        layers: int = 1,
        method: Method = "auto",
        rngs: nnx.Rngs,
    ):
        heads, head_dim = heads_and_head_dim("GatedDeltaNet", width, heads, head_dim)
        check_positive("GatedDeltaNet", value_dim=value_dim)
        super().__init__(
            width,
            heads,
            head_dim,
            2 * head_dim if value_dim is None else value_dim,
            gate="silu",
            negative_eigenvalues=negative_eigenvalues,
            conv_width=conv_width,
            chunk_size=chunk_size,
            layer=layer,
            layers=layers,
            method=method,
            rngs=rngs,
        )
        self.decay = Linear(width, heads, rngs=rngs)
        self.A_log = nnx.Param(log_rates(heads, rngs), weight_decay=False)
        self.dt_bias = nnx.Param(inverse_softplus_steps(heads, rngs), weight_decay=False)

    def _log_decay(self, x):
        dt = jax.nn.softplus(self.decay(x, dtype=jnp.float32) + self.dt_bias[...][None, None])
        return -jnp.exp(self.A_log[...])[None, None] * dt


@register
class KimiDeltaAttention(DeltaMemory):
    """GatedDeltaNet with g = −A softplus(W_2 W_1 x + b) for each key channel, A for each head, K = V, and the
    output gate sigmoid(V_2 V_1 x) (Kimi team 2025).

    Args:
      width: D. heads: H. head_dim: K = V; left open they are as `heads_and_head_dim` says, with 128 for 64.
      gate_rank: rows of W_2 and of V_2; None: K.
      safe_gate: g = −5 sigmoid(A (W_2 W_1 x + b)) instead, which forgets no more than e^−5 a token.
      negative_eigenvalues: β goes to 2 instead of 1.
      conv_width: W. chunk_size: tokens a chunk of the chunked form.
    """

    def __init__(
        self,
        width: int,
        *,
        heads: int | None = None,
        head_dim: int | None = None,
        gate_rank: int | None = None,
        safe_gate: bool = False,
        negative_eigenvalues: bool = False,
        conv_width: int = 4,
        chunk_size: int = 32,
        layer: int = 0,
        layers: int = 1,
        method: Method = "auto",
        rngs: nnx.Rngs,
    ):
        heads, head_dim = heads_and_head_dim("KimiDeltaAttention", width, heads, head_dim, KIMI_HEAD_DIM)
        check_positive("KimiDeltaAttention", gate_rank=gate_rank)
        gate_rank = gate_rank or head_dim
        super().__init__(
            width,
            heads,
            head_dim,
            head_dim,
            gate="sigmoid",
            gate_rank=gate_rank,
            negative_eigenvalues=negative_eigenvalues,
            conv_width=conv_width,
            chunk_size=chunk_size,
            layer=layer,
            layers=layers,
            method=method,
            rngs=rngs,
        )
        self.safe_gate = safe_gate
        self.decay = LowRank(width, gate_rank, heads * head_dim, rngs=rngs)
        self.A_log = nnx.Param(log_rates(heads, rngs), weight_decay=False)
        self.dt_bias = nnx.Param(inverse_softplus_steps(heads * head_dim, rngs), weight_decay=False)

    def _log_decay(self, x):
        f = (self.decay(x) + self.dt_bias[...][None, None]).reshape(*x.shape[:2], self.heads, -1)
        A = jnp.exp(self.A_log[...])[None, None, :, None]
        return SAFE_BOUND * jax.nn.sigmoid(A * f) if self.safe_gate else -A * jax.nn.softplus(f)
