"""Linear attention: φ(q)·φ(k) for softmax's exp(q·k), so that a state of fixed size holds the past."""

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
    heads_and_head_dim,
    register,
    state_elements,
)
from seqmodels.mixers.feature_maps import FeatureMap, FeatureMapName, features
from seqmodels.nn.linear import Linear, residual_std
from seqmodels.nn.norms import RMSNorm
from seqmodels.nn.short_convolution import ShortConvolutions
from seqmodels.ops import LinearAttentionState, linear_attention


class State(NamedTuple):
    """memory: kv [B, H, K, V] and, where normalised, key_sum [B, H, K], float32, with K after φ. windows: of
    the convolutions on q, k and v. last_id [B] int32.
    """

    memory: LinearAttentionState
    windows: tuple[jax.Array, ...]
    last_id: jax.Array


@register
class LinearAttention(Mixer):
    """S_t = S_{t−1} + φ(k_t) v_tᵀ,  z_t = z_{t−1} + φ(k_t),  y_t = φ(q_t)ᵀ S_t / (φ(q_t)ᵀ z_t)
    (Katharopoulos et al. 2020), or without the normaliser y_t = RMSNorm(K^−½ φ(q_t)ᵀ S_t) in each head.

    Args:
      width: D. heads: H. head_dim: V, of values; `heads_and_head_dim` says what they are when left open.
      key_dim: K before φ; None: head_dim ("taylor" makes 1 + K + K² features of it).
      feature_map: φ. normalize: divides by φ(q)·z; with "identity" that could vanish with a sign: refused.
      conv_width: W of a short convolution with SiLU on q, k and v; None: none.
      chunk_size: tokens a chunk of the chunked form.
    """

    methods = ("sequential", "associative", "chunked", "parallel")

    def __init__(
        self,
        width: int,
        *,
        heads: int | None = None,
        head_dim: int | None = None,
        key_dim: int | None = None,
        feature_map: FeatureMapName = "elu1",
        normalize: bool = True,
        conv_width: int | None = None,
        chunk_size: int = 64,
        layer: int = 0,
        layers: int = 1,
        method: Literal["auto", "sequential", "associative", "chunked", "parallel"] = "auto",
        rngs: nnx.Rngs,
    ):
        check_choice("LinearAttention.method", method, ("auto", *self.methods))
        check_choice("LinearAttention.feature_map", feature_map, FeatureMapName)
        if feature_map == "identity" and normalize:
            raise InputError(
                'LinearAttention.feature_map "identity" has no positive normaliser; set '
                "LinearAttention.normalize = False with it."
            )
        self.heads, self.head_dim = heads_and_head_dim("LinearAttention", width, heads, head_dim)
        check_positive("LinearAttention", key_dim=key_dim, conv_width=conv_width, chunk_size=chunk_size)
        self.key_dim = self.head_dim if key_dim is None else key_dim
        self.normalize, self.method, self.chunk_size = normalize, method, chunk_size
        self.layer = layer
        keys, values = self.heads * self.key_dim, self.heads * self.head_dim
        self.query = Linear(width, keys, rngs=rngs)
        self.key = Linear(width, keys, rngs=rngs)
        self.value = Linear(width, values, rngs=rngs)
        self.convolutions = ShortConvolutions((keys, keys, values), conv_width, rngs=rngs)
        self.query_map = FeatureMap(feature_map, self.heads, self.key_dim)
        self.key_map = FeatureMap(feature_map, self.heads, self.key_dim)
        self.norm = None if normalize else RMSNorm(self.heads, self.head_dim)
        self.output = Linear(values, width, std=residual_std(layers), rngs=rngs)

    def __call__(self, x, *, segment_ids=None, state=None, rngs=None):
        batch, length, _ = x.shape
        state = self._begin(x, segment_ids, state)
        streams, windows = self.convolutions(
            (self.query(x), self.key(x), self.value(x)), segment_ids=segment_ids, state=state.windows
        )
        q, k, v = (y.reshape(batch, length, self.heads, -1) for y in streams)
        o, memory = linear_attention(
            self.query_map(q),
            self.key_map(k),
            v,
            scale=self.key_dim**-0.5,
            normalize=self.normalize,
            initial_state=state.memory,
            segment_ids=segment_ids,
            method=self.method,
            chunk_size=self.chunk_size,
        )
        if self.norm is not None:
            o = self.norm(o)
        y = self.output(o.reshape(batch, length, -1))
        last_id = current_id(segment_ids, state.last_id)
        return y, State(memory, windows, last_id)

    def log_decays(self, x, *, segment_ids=None):
        """Zero: what is written stays as it is, and only its share of the normaliser becomes smaller."""
        self._begin(x, segment_ids, None)
        return {"gate": at_every_token(jnp.zeros(self.heads, jnp.float32), x)}

    def init_state(self, batch_size, max_length, dtype=jnp.float32):
        size = features(self.key_map.name, self.key_dim)
        kv = jnp.zeros((batch_size, self.heads, size, self.head_dim), jnp.float32)
        memory = LinearAttentionState(kv, kv[..., 0] if self.normalize else None)
        windows = self.convolutions.init_state(batch_size, dtype)
        return State(memory, windows, jnp.zeros(batch_size, jnp.int32))

    def costs(self, length):
        size = features(self.key_map.name, self.key_dim)
        linears = (self.query, self.key, self.value, self.output)
        products = sum(linear.flops_per_token() for linear in linears)
        if self.key_map.weight is not None:
            products += 2 * 2 * self.heads * self.key_dim**2
        # Written and read: a multiply-add for each element of the state; the normaliser's sum is read alike.
        recurrence = 4 * self.heads * size * self.head_dim
        normaliser = 3 * self.heads * size if self.normalize else 0
        flops = products + self.convolutions.flops_per_token() + recurrence + normaliser
        return Costs(flops, state_elements(self, length))
