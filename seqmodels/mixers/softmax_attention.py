"""Softmax attention: each token reads every earlier one of its document, from a cache that grows with it."""

import math
from typing import Literal

import jax.numpy as jnp
import numpy as np
from flax import nnx

from seqmodels.errors import InputError
from seqmodels.mixers import kv_cache
from seqmodels.mixers.base import (
    Costs,
    Mixer,
    check_choice,
    check_positive,
    heads_and_head_dim,
    positions,
    register,
    state_elements,
)
from seqmodels.mixers.kv_cache import KVCache
from seqmodels.nn.linear import Linear, residual_std
from seqmodels.nn.norms import RMSNorm
from seqmodels.nn.rotary import Rotary, RotaryScaling
from seqmodels.nn.short_convolution import ShortConvolutions
from seqmodels.ops import softmax_attention

PositionEncoding = Literal["rope", "none", "alibi"]


@register
class SoftmaxAttention(Mixer):
    """o_t = Σ_{j≤t} softmax_j(K^−½ q_t·k_j) v_j in each head, H heads sharing G heads of keys and values.

    Multi-head (Vaswani et al. 2017), grouped-query with fewer kv_heads (Ainslie et al. 2023), multi-query
    with one (Shazeer 2019); a sliding window (Beltagy et al. 2020) makes the cache a ring buffer.

    Args:
      width: D. heads: H. kv_heads: G, a divisor of H; None: H. head_dim: K = V.
      window: how many tokens one sees, itself included; None: all.
      position_encoding: "rope" turns q and k by their position, "alibi" takes slope · distance off the logits
        (Press et al. 2022), "none" leaves order to the causal mask.
      rope_theta, rope_scaling, rope_factor, rope_original_length: see `nn.rotary.Rotary`.
      qk_norm: RMS norm of q and k in each head (Henry et al. 2020). softcap: logits become
        softcap · tanh(logits / softcap). sinks: one learned logit a head in the denominator alone.
      conv_width: W of a short convolution with SiLU on q, k and v; None: none.
      block_size: queries and keys a block of the blockwise form.
    """

    methods = ("parallel", "blockwise")

    def __init__(
        self,
        width: int,
        *,
        heads: int | None = None,
        kv_heads: int | None = None,
        head_dim: int | None = None,
        window: int | None = None,
        position_encoding: PositionEncoding = "rope",
        rope_theta: float = 10_000.0,
        rope_scaling: RotaryScaling = "none",
        rope_factor: float = 1.0,
        rope_original_length: int | None = None,
        qk_norm: bool = False,
        softcap: float | None = None,
        sinks: bool = False,
        conv_width: int | None = None,
        block_size: int = 128,
        layer: int = 0,
        layers: int = 1,
        method: Literal["auto", "parallel", "blockwise"] = "auto",
        rngs: nnx.Rngs,
    ):
        check_choice("SoftmaxAttention.method", method, ("auto", *self.methods))
        check_choice("SoftmaxAttention.position_encoding", position_encoding, PositionEncoding)
        self.heads, self.head_dim = heads_and_head_dim("SoftmaxAttention", width, heads, head_dim)
        self.kv_heads = self.heads if kv_heads is None else kv_heads
        check_positive(
            "SoftmaxAttention", kv_heads=kv_heads, window=window, conv_width=conv_width, block_size=block_size
        )
        if self.heads % self.kv_heads:
            raise InputError(
                f"SoftmaxAttention.kv_heads is {kv_heads}; it must divide the number of heads, {self.heads}."
            )
        if softcap is not None and softcap <= 0:
            raise InputError(f"SoftmaxAttention.softcap is {softcap}; it must be above 0, or None.")
        self.rotary = None
        if position_encoding == "rope":
            self.rotary = Rotary(rope_theta, rope_scaling, rope_factor, rope_original_length)
            self.rotary.check("SoftmaxAttention", self.head_dim)
        self.alibi = position_encoding == "alibi"
        self.window, self.softcap, self.block_size, self.method = window, softcap, block_size, method
        self.layer = layer
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        self.query = Linear(width, queries, rngs=rngs)
        self.key = Linear(width, keys, rngs=rngs)
        self.value = Linear(width, keys, rngs=rngs)
        self.convolutions = ShortConvolutions((queries, keys, keys), conv_width, rngs=rngs)
        self.query_norm = RMSNorm(self.head_dim) if qk_norm else None
        self.key_norm = RMSNorm(self.head_dim) if qk_norm else None
        self.sinks = nnx.Param(jnp.zeros(self.heads, jnp.float32), weight_decay=False) if sinks else None
        self.output = Linear(queries, width, std=residual_std(layers), rngs=rngs)

    def __call__(self, x, *, segment_ids=None, state=None, rngs=None):
        batch, length, _ = x.shape
        alone = state is None  # nothing cached: attend among the tokens themselves
        state = self._begin(x, segment_ids, state, keep=kv_cache.LARGE_FIELDS)
        streams, windows = self.convolutions(
            (self.query(x), self.key(x), self.value(x)), segment_ids=segment_ids, state=state.windows
        )
        state = state._replace(windows=windows)
        q, k, v = (y.reshape(batch, length, -1, self.head_dim) for y in streams)
        if self.query_norm is not None:
            q, k = self.query_norm(q), self.key_norm(k)
        places = positions(segment_ids, state.position, length)
        if self.rotary is not None:
            q, k = self.rotary(q, places), self.rotary(k, places)
        ring = self.window is not None
        after = kv_cache.append(state, k, v, places, segment_ids, ring=ring)
        if alone:
            o = self._attend(q, k, v, segment_ids=segment_ids)
        elif length == 1:
            o = self._attend_cache(q, after, places, segment_ids)
        else:
            o = self._attend_both(q, k, v, state, places, segment_ids)
        if not alone and not ring:
            full = kv_cache.overflow(after.position, after.keys.shape[2])
            o = jnp.where(full[:, None, None, None], jnp.nan, o)
        return self.output(o.reshape(batch, length, -1)), after

    def _attend(self, q, k, v, **who_and_where):
        return softmax_attention(
            q,
            k,
            v,
            window=self.window,
            softcap=self.softcap,
            sinks=None if self.sinks is None else self.sinks[...],
            slopes=jnp.asarray(alibi_slopes(self.heads), jnp.float32) if self.alibi else None,
            method=self.method,
            block_size=self.block_size,
            **who_and_where,
        )

    def _attend_cache(self, q, cache, places, segment_ids):
        """One token, already in the cache, which is read where it lies."""
        used, kv_places = kv_cache.held(cache, ring=self.window is not None)
        real = jnp.ones_like(places) if segment_ids is None else (segment_ids != 0).astype(jnp.int32)
        return self._attend(
            q,
            cache.keys.swapaxes(1, 2).astype(q.dtype),
            cache.values.swapaxes(1, 2).astype(q.dtype),
            segment_ids=real,
            kv_segment_ids=used.astype(jnp.int32),
            q_positions=places,
            kv_positions=kv_places,
        )

    def _attend_both(self, q, k, v, cache, places, segment_ids):
        """Several tokens, to what the cache held before them and to one another."""
        used, kv_places = kv_cache.held(cache, ring=self.window is not None)
        first = kv_cache.current_id(None, cache.last_id)
        ids = jnp.broadcast_to(first[:, None], places.shape) if segment_ids is None else segment_ids
        return self._attend(
            q,
            jnp.concatenate([cache.keys.swapaxes(1, 2).astype(k.dtype), k], axis=1),
            jnp.concatenate([cache.values.swapaxes(1, 2).astype(v.dtype), v], axis=1),
            segment_ids=ids,
            kv_segment_ids=jnp.concatenate([jnp.where(used, first[:, None], 0), ids], axis=1),
            q_positions=places,
            kv_positions=jnp.concatenate([kv_places, places], axis=1),
        )

    def init_state(self, batch_size, max_length, dtype=jnp.float32):
        slots = max_length if self.window is None else self.window
        shape = (batch_size, self.kv_heads, slots, self.head_dim)
        return KVCache(
            keys=jnp.zeros(shape, dtype),
            values=jnp.zeros(shape, dtype),
            windows=self.convolutions.init_state(batch_size, dtype),
            position=jnp.zeros(batch_size, jnp.int32),
            last_id=jnp.zeros(batch_size, jnp.int32),
        )

    def costs(self, length):
        linears = (self.query, self.key, self.value, self.output)
        products = sum(linear.flops_per_token() for linear in linears)
        seen = length if self.window is None else min(length, self.window)
        attention = 2 * 2 * self.heads * self.head_dim * seen  # logits and values
        flops = products + self.convolutions.flops_per_token() + attention
        return Costs(flops, state_elements(self, length))


def alibi_slopes(heads: int) -> np.ndarray:
    """[H] float64: 2^(−8(h+1)/H) where H is a power of 2, else those of the next lower power, then every
    other one of the next higher (Press et al. 2022).
    """
    lower = 2 ** int(math.log2(heads))
    slopes = 2.0 ** (-8 * np.arange(1, lower + 1) / lower)
    between = 2.0 ** (-8 * np.arange(1, 2 * lower + 1, 2) / (2 * lower))
    return np.concatenate([slopes, between[: heads - lower]])
