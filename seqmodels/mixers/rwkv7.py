"""RWKV-7: a matrix memory that fades by channel and unlearns what a key stood for (Peng et al. 2025)."""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
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
from seqmodels.mixers.matrix_state import MatrixState
from seqmodels.mixers.rank_one_decay import rank_one_log_decays
from seqmodels.nn.linear import Linear, residual_std
from seqmodels.nn.low_rank import LowRank
from seqmodels.nn.norms import GroupNorm, l2_norm
from seqmodels.ops import causal_conv, dplr

# e^g lies above e^(−e^−½) = 0.545.
STRONGEST = float(np.exp(-0.5))
# Of the group norm, for each channel of a head.
EPSILON = 1e-5
# How fast the share of the token before grows along the channels, for r, g, k, v, w, a.
LERP_POWERS = (0.2, 0.2, 0.7, 0.7, 0.9, 0.9)


@register
class RWKV7(Mixer):
    """S_t = diag(e^{g_t}) S_{t−1} − (κ_t α_t) (κ_tᵀ S_{t−1}) + k̃_t v_tᵀ,  o_t = r_tᵀ S_t,
    y_t = W_o((GroupNorm(o_t) + (Σ r_t k̃_t ρ) v_t) · γ_t) (Peng et al. 2025),

    where each of r, k, v, g, α, γ has a mixture x + (x_{t−1} − x) μ of its own for input. r, k, v are linear,
    g = −e^−½ sigmoid(b + W_2 tanh(W_1 x)), α = sigmoid(b + A_2 A_1 x), γ = G_2 sigmoid(G_1 x); κ is k ξ of
    length 1 in each head, and k̃ = k (1 + (α − 1) η). μ, b, ξ, η, ρ are learned, a number a channel.

    The published value residual, which mixes v with that of layer 0, is left out: it would tie the layers.

    Args:
      width: D. heads: H. head_dim: K = V; `heads_and_head_dim` says what they are when left open.
      rank: of the three low-rank maps; None: as released, 1.8 √D and for γ 0.6 D^0.8, in whole 32s.
      chunk_size: tokens a chunk of the chunked form.
    """

    methods = ("sequential", "chunked")

    def __init__(
        self,
        width: int,
        *,
        heads: int | None = None,
        head_dim: int | None = None,
        rank: int | None = None,
        chunk_size: int = 16,
        layer: int = 0,
        layers: int = 1,
        method: Literal["auto", "sequential", "chunked"] = "auto",
        rngs: nnx.Rngs,
    ):
        check_choice("RWKV7.method", method, ("auto", *self.methods))
        self.heads, self.head_dim = heads_and_head_dim("RWKV7", width, heads, head_dim)
        check_positive("RWKV7", rank=rank, chunk_size=chunk_size)
        self.method, self.chunk_size, self.layer = method, chunk_size, layer
        channels = self.heads * self.head_dim
        self.lerp = nnx.Param(jnp.asarray(lerps(width, layer, layers), jnp.float32), weight_decay=False)
        self.receptance = Linear(width, channels, rngs=rngs)
        self.key = Linear(width, channels, rngs=rngs)
        self.value = Linear(width, channels, rngs=rngs)
        gate_rank, other_rank = ranks(width) if rank is None else (rank, rank)
        self.gate = LowRank(width, gate_rank, channels, activation="sigmoid", rngs=rngs)
        self.decay = LowRank(width, other_rank, channels, activation="tanh", bias=True, rngs=rngs)
        self.decay.bias[...] = jnp.asarray(decay_bias(channels, layer, layers), jnp.float32)
        self.alpha = LowRank(width, other_rank, channels, bias=True, rngs=rngs)
        self.kappa_scale = nnx.Param(jnp.ones(channels, jnp.float32), weight_decay=False)
        self.alpha_scale = nnx.Param(jnp.ones(channels, jnp.float32), weight_decay=False)
        self.bonus_scale = nnx.Param(jnp.zeros(channels, jnp.float32), weight_decay=False)
        self.norm = GroupNorm(self.heads, self.head_dim, epsilon=EPSILON * self.head_dim)
        self.output = Linear(channels, width, std=residual_std(layers), rngs=rngs)

    def __call__(self, x, *, segment_ids=None, state=None, rngs=None):
        state = self._begin(x, segment_ids, state)
        (of_r, of_gate, of_k, of_v, of_decay, of_alpha), window = self._shifted(x, segment_ids, state)
        r, k, v = self.receptance(of_r), self.key(of_k), self.value(of_v)
        wide = k.astype(jnp.float32)
        g, kappa, alpha = self._forgetting(wide, of_decay, of_alpha)
        k = wide * (1 + (alpha.reshape(wide.shape) - 1) * self.alpha_scale[...][None, None])
        r, k, v = (self._heads(y) for y in (r, k.astype(x.dtype), v))
        o, memory = dplr(
            r,
            k,
            v,
            -kappa.astype(x.dtype),
            (kappa * alpha).astype(x.dtype),
            log_decay=g,
            scale=1.0,
            initial_state=state.memory,
            segment_ids=segment_ids,
            method=self.method,
            chunk_size=self.chunk_size,
        )
        products = (r * k).astype(jnp.float32) * self.bonus_scale[...].reshape(self.heads, -1)[None, None]
        bonus = products.sum(axis=-1, keepdims=True).astype(x.dtype) * v
        y = (self.norm(o) + bonus).reshape(*x.shape[:2], -1) * self.gate(of_gate).astype(x.dtype)
        last_id = current_id(segment_ids, state.last_id)
        return self.output(y), MatrixState(memory, (window,), last_id)

    def _forgetting(self, k, of_decay, of_alpha):
        """g, κ and α in float32, [B, T, H, K]; k float32 [B, T, H·K]."""
        g = -STRONGEST * jax.nn.sigmoid(self.decay(of_decay))
        kappa = l2_norm(self._heads(k * self.kappa_scale[...][None, None]))
        return self._heads(g), kappa, self._heads(jax.nn.sigmoid(self.alpha(of_alpha)))

    def log_decays(self, x, *, segment_ids=None):
        """The key that "written" is about is κ, under which the token unlearns; k̃ is close to it."""
        shifted, _ = self._shifted(x, segment_ids, self._begin(x, segment_ids, None))
        _, _, of_k, _, of_decay, of_alpha = shifted
        g, kappa, alpha = self._forgetting(self.key(of_k).astype(jnp.float32), of_decay, of_alpha)
        return {"gate": g, **rank_one_log_decays(jnp.exp(g), -kappa, kappa * alpha, kappa)}

    def _shifted(self, x, segment_ids, state):
        """(x mixed with the token before by each row of `lerp`, the last token as a window [B, 1, D])."""
        before = jnp.asarray([[1.0], [0.0]]) * jnp.ones((1, x.shape[-1]))
        previous, window = causal_conv(x, before, initial_state=state.windows[0], segment_ids=segment_ids)
        shares = self.lerp[...].astype(x.dtype)[:, None, None]
        return tuple(x + (previous - x) * share for share in shares), window

    def _heads(self, y):
        return y.reshape(*y.shape[:2], self.heads, self.head_dim)

    def init_state(self, batch_size, max_length, dtype=jnp.float32):
        return MatrixState(
            jnp.zeros((batch_size, self.heads, self.head_dim, self.head_dim), jnp.float32),
            (jnp.zeros((batch_size, 1, self.lerp.shape[1]), dtype),),
            jnp.zeros(batch_size, jnp.int32),
        )

    def costs(self, length):
        parts = (self.receptance, self.key, self.value, self.gate, self.decay, self.alpha, self.output)
        products = sum(part.flops_per_token() for part in parts)
        # Of an element of the memory: read by a, decayed, written by b and by k, read by r.
        recurrence = (2 + 1 + 2 + 2 + 2) * self.heads * self.head_dim**2
        return Costs(products + recurrence, state_elements(self, length))


def ranks(width: int) -> tuple[int, int]:
    """Of the output gate's map, and of the maps of g and α, as released."""
    gate, other = (max(32, round(size / 32) * 32) for size in (0.6 * width**0.8, 1.8 * width**0.5))
    return gate, other


def lerps(width: int, layer: int, layers: int) -> np.ndarray:
    """[6, D], 1 − (d/D)^(p (1 − layer/layers)): the first channels look back, most of all in early layers."""
    channel = np.arange(width) / width
    return np.stack([1 - channel ** (power * (1 - layer / layers)) for power in LERP_POWERS])


def decay_bias(channels: int, layer: int, layers: int) -> np.ndarray:
    """[H·K] from −5.5, where a channel keeps 0.9975 a token, to 0.5, where it keeps 0.69."""
    depth = layer / max(layers - 1, 1)
    return -5.5 + 6 * np.linspace(0, 1, channels) ** (1 + depth**0.3)
