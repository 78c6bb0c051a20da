"""Compressed attention: the recent past token by token, what is older pooled, a key and a value a block."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from seqmodels.errors import InputError
from seqmodels.mixers import kv_cache
from seqmodels.mixers.base import (
    Costs,
    Mixer,
    check_choice,
    check_positive,
    current_id,
    heads_and_head_dim,
    positions,
    register,
    state_elements,
)
from seqmodels.nn.linear import Linear, residual_std
from seqmodels.nn.rotary import Rotary
from seqmodels.nn.short_convolution import ShortConvolutions
from seqmodels.ops.attention_compressed import METHODS, Source, compressed_attention

Pooling = Literal["mean", "strided", "learned"]


class State(NamedTuple):
    """keys, values [B, G, S, K]: a ring buffer of the last S = window + pool_size − 1 tokens, see `kv_cache`.
    pooled_keys, pooled_values [B, G, N, K]: the finished blocks of the current document, in order.
    partial_key, partial_value [B, G, K] float32: of the unfinished block, its pooled sum so far. windows: of
    the convolutions on q, k, v. position [B] int32: real tokens in the current document. last_id [B] int32.
    """

    keys: jax.Array
    values: jax.Array
    pooled_keys: jax.Array
    pooled_values: jax.Array
    partial_key: jax.Array
    partial_value: jax.Array
    windows: tuple[jax.Array, ...]
    position: jax.Array
    last_id: jax.Array


LARGE_FIELDS = (*kv_cache.LARGE_FIELDS, "pooled_keys", "pooled_values")


@register
class CompressedAttention(Mixer):
    """o_t = Σ_j p_tj v_j + Σ_n p_tn v̄_n, one softmax p of K^−½ q_t·k over recent tokens j and older blocks n.

    After the compression branch of Native Sparse Attention (Yuan et al. 2025) and Memory-Compressed Attention
    (Liu et al. 2018). A document's tokens fall into blocks of pool_size, counted from its first. While the
    last token of a block is among the `window` last tokens, or still to come, its tokens are read one by one;
    afterwards the block is read as one key k̄_n = Σ_i w_i k_{n,i} and one value v̄_n. Thus each token is
    read exactly once. Keys are pooled after their rotation, so that q·k̄_n is the w-weighted mean of the
    block's logits, positions included.

    Args:
      width: D. heads: H. kv_heads: G, a divisor of H; None: H. head_dim: K = V.
      window: recent tokens, the current one included, whose blocks stay exact. pool_size: tokens a block.
      pooling: w of "mean" is uniform, "strided" picks the block's last token, "learned" is a softmax over
        the places in a block, a row for each key/value head, of keys and of values, that starts as the mean.
      position_encoding: "rope" turns q and k by their position; "none" leaves order to the causal mask.
      conv_width: W of a short convolution with SiLU on q, k and v; None: none.
      block_size: queries a block of the blockwise form.
    """

    methods = METHODS

    def __init__(
        self,
        width: int,
        *,
        heads: int | None = None,
        kv_heads: int | None = None,
        head_dim: int | None = None,
        window: int = 64,
        pool_size: int = 16,
        pooling: Pooling = "mean",
        position_encoding: Literal["rope", "none"] = "rope",
        conv_width: int | None = None,
        block_size: int = 128,
        layer: int = 0,
        layers: int = 1,
        method: Literal["auto", "parallel", "blockwise"] = "auto",
        rngs: nnx.Rngs,
    ):
        check_choice("CompressedAttention.method", method, ("auto", *self.methods))
        check_choice("CompressedAttention.pooling", pooling, Pooling)
        check_choice("CompressedAttention.position_encoding", position_encoding, ("rope", "none"))
        self.heads, self.head_dim = heads_and_head_dim("CompressedAttention", width, heads, head_dim)
        self.kv_heads = self.heads if kv_heads is None else kv_heads
        check_positive(
            "CompressedAttention",
            kv_heads=kv_heads,
            window=window,
            pool_size=pool_size,
            conv_width=conv_width,
            block_size=block_size,
        )
        if self.heads % self.kv_heads:
            raise InputError(
                f"CompressedAttention.kv_heads is {kv_heads}; it must divide the number of heads, "
                f"{self.heads}."
            )
        self.rotary = Rotary() if position_encoding == "rope" else None
        if self.rotary is not None:
            self.rotary.check("CompressedAttention", self.head_dim)
        self.window, self.pool_size, self.pooling = window, pool_size, pooling
        self.block_size, self.method, self.layer = block_size, method, layer
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        self.query = Linear(width, queries, rngs=rngs)
        self.key = Linear(width, keys, rngs=rngs)
        self.value = Linear(width, keys, rngs=rngs)
        self.convolutions = ShortConvolutions((queries, keys, keys), conv_width, rngs=rngs)
        logits = jnp.zeros((2, self.kv_heads, pool_size), jnp.float32)
        self.pooling_logits = nnx.Param(logits) if pooling == "learned" else None
        self.output = Linear(queries, width, std=residual_std(layers), rngs=rngs)

    def __call__(self, x, *, segment_ids=None, state=None, rngs=None):
        batch, length, _ = x.shape
        alone = state is None  # nothing cached: attend among the tokens themselves
        state = self._begin(x, segment_ids, state, keep=LARGE_FIELDS)
        streams, windows = self.convolutions(
            (self.query(x), self.key(x), self.value(x)), segment_ids=segment_ids, state=state.windows
        )
        q, k, v = (y.reshape(batch, length, -1, self.head_dim) for y in streams)
        places = positions(segment_ids, state.position, length)
        if self.rotary is not None:
            q, k = self.rotary(q, places), self.rotary(k, places)
        first = current_id(None, state.last_id)
        ids = jnp.broadcast_to(first[:, None], places.shape) if segment_ids is None else segment_ids
        after = kv_cache.append(state._replace(windows=windows), k, v, places, segment_ids, ring=True)
        tokens = Source(k.swapaxes(1, 2), v.swapaxes(1, 2), ids, places, self._last(places))
        blocks, after = self._pool(tokens, state, after)
        if not alone and length == 1:  # the token is in the caches, which are read where they lie
            tokens, blocks = self._held(after, x.dtype)
        elif not alone:
            older_tokens, older_blocks = self._held(state, x.dtype)
            tokens, blocks = older_tokens.then(tokens), older_blocks.then(blocks)
        o = compressed_attention(
            q,
            ids,
            places,
            tokens,
            blocks,
            window=self.window,
            method=self.method,
            block_size=self.block_size,
        )
        if not alone:
            capacity = (after.pooled_keys.shape[2] + 1) * self.pool_size - 1
            full = kv_cache.overflow(after.position, capacity)
            o = jnp.where(full[:, None, None, None], jnp.nan, o)
        return self.output(o.reshape(batch, length, -1)), after

    def _last(self, places):
        """The place of the last token of each token's block."""
        return places - places % self.pool_size + self.pool_size - 1

    def _weights(self):
        """[2, G, pool_size] float32: w of keys and of values."""
        shape = (2, self.kv_heads, self.pool_size)
        if self.pooling == "mean":
            return jnp.full(shape, 1 / self.pool_size, jnp.float32)
        if self.pooling == "strided":
            return jnp.zeros(shape, jnp.float32).at[..., -1].set(1)
        return jax.nn.softmax(self.pooling_logits[...], axis=-1)

    def _pool(self, tokens, before, after):
        """(the blocks that these tokens finish, as a Source; the state with them and the unfinished one)."""
        length, size = tokens.ids.shape[1], self.pool_size
        real, place = tokens.ids != 0, tokens.places % size
        finishes = real & (place == size - 1)
        # T tokens, and up to size − 1 of the unfinished block before them, finish so many blocks at most.
        index = jnp.argsort(~finishes, axis=1)[:, : min(length, (length + size - 1) // size)]
        ids = jnp.take_along_axis(jnp.where(finishes, tokens.ids, 0), index, axis=1)
        last = jnp.take_along_axis(tokens.last, index, axis=1)
        # One column more for the block that the row leaves unfinished.
        ids = jnp.concatenate([ids, after.last_id[:, None]], axis=1)
        last = jnp.concatenate([last, self._last(after.position)[:, None]], axis=1)
        member = (tokens.ids[:, :, None] == ids[:, None]) & (tokens.last[:, :, None] == last[:, None])
        member = (member & real[:, :, None]).astype(jnp.float32)
        begun = (ids == current_id(None, before.last_id)[:, None]) & (
            last == self._last(before.position)[:, None]
        )

        def pooled(y, weights, partial):
            weighted = y.astype(jnp.float32) * weights[:, place].swapaxes(0, 1)[..., None]
            total = jnp.einsum("btn,bgtk->bgnk", member, weighted)
            total = total + jnp.where(begun[:, None, :, None], partial[:, :, None], 0)
            return total[:, :, :-1].astype(y.dtype), total[:, :, -1]

        of_keys, of_values = self._weights()
        keys, partial_key = pooled(tokens.keys, of_keys, before.partial_key)
        values, partial_value = pooled(tokens.values, of_values, before.partial_value)
        ids, last = ids[:, :-1], last[:, :-1]
        current = (ids != 0) & (ids == after.last_id[:, None])
        slots = jnp.where(current, last // size, after.pooled_keys.shape[2])
        after = after._replace(
            pooled_keys=kv_cache.written(after.pooled_keys, keys, slots),
            pooled_values=kv_cache.written(after.pooled_values, values, slots),
            partial_key=partial_key,
            partial_value=partial_value,
        )
        return Source(keys, values, ids, last, last), after

    def _held(self, state, dtype):
        """(the tokens, the blocks) that a state holds, as Sources."""
        owner = current_id(None, state.last_id)[:, None]
        used, places = kv_cache.held(state, ring=True)
        block = jnp.arange(state.pooled_keys.shape[2], dtype=jnp.int32)[None, :]
        finished = block < state.position[:, None] // self.pool_size
        last = jnp.broadcast_to((block + 1) * self.pool_size - 1, finished.shape)
        return tuple(
            Source(keys.astype(dtype), values.astype(dtype), jnp.where(there, owner, 0), where, end)
            for keys, values, there, where, end in (
                (state.keys, state.values, used, places, self._last(places)),
                (state.pooled_keys, state.pooled_values, finished, last, last),
            )
        )

    def init_state(self, batch_size, max_length, dtype=jnp.float32):
        shape = (batch_size, self.kv_heads, self.window + self.pool_size - 1, self.head_dim)
        pooled = (batch_size, self.kv_heads, self._slots(max_length), self.head_dim)
        partial = (batch_size, self.kv_heads, self.head_dim)
        return State(
            keys=jnp.zeros(shape, dtype),
            values=jnp.zeros(shape, dtype),
            pooled_keys=jnp.zeros(pooled, dtype),
            pooled_values=jnp.zeros(pooled, dtype),
            partial_key=jnp.zeros(partial, jnp.float32),
            partial_value=jnp.zeros(partial, jnp.float32),
            windows=self.convolutions.init_state(batch_size, dtype),
            position=jnp.zeros(batch_size, jnp.int32),
            last_id=jnp.zeros(batch_size, jnp.int32),
        )

    def _slots(self, length):
        """Blocks in a cache for `length` tokens; one at least, since arrays without elements are no use."""
        return max(1, length // self.pool_size)

    def costs(self, length):
        linears = (self.query, self.key, self.value, self.output)
        products = sum(linear.flops_per_token() for linear in linears)
        seen = min(length, self.window + self.pool_size - 1) + self._slots(length)
        attention = 2 * 2 * self.heads * self.head_dim * seen  # logits and values
        pooling = 2 * 2 * self.kv_heads * self.head_dim
        flops = products + self.convolutions.flops_per_token() + attention + pooling
        return Costs(flops, state_elements(self, length))
