"""The language model: embedding, layers by pattern, norm, head."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import gin
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from seqmodels.block import Block, NormKind, make_norm
from seqmodels.errors import InputError
from seqmodels.layer_stack import LayerStack
from seqmodels.mixers import SoftmaxAttention
from seqmodels.mixers.base import (
    Mixer,
    check_choice,
    check_positive,
    current_id,
    current_position,
    positions,
    resume,
)
from seqmodels.nn.dropout import dropout
from seqmodels.nn.feed_forward import FeedForward, default_feed_forward_width
from seqmodels.nn.linear import Embedding, Linear, product
from seqmodels.nn.positions import sinusoidal

ComputeDtype = Literal["float32", "bfloat16"]
FeedForwardChoice = Literal["swiglu", "gelu", "relu", "none"]
PositionChoice = Literal["none", "sinusoidal", "learned"]


class ModelState(NamedTuple):
    """layers: one state a layer. last_id [B] int32: the current document, 0 for the empty state. position [B]
    int32: the number of real tokens so far in it.
    """

    layers: tuple[Any, ...]
    last_id: jax.Array
    position: jax.Array


@gin.register(denylist=["vocab_size", "rngs"])
class LanguageModel(nnx.Module):
    """tokens [B, T] -> logits [B, T, vocab_size], with a state that carries every row on.

    Args:
      vocab_size: number of token ids. width: D. depth: number of layers.
      mixers: the pattern of mixer classes, repeated over the depth.
      dtype: of the matrix products and of the activations between layers.
      feed_forward: of every block whose mixer is not a whole block. feed_forward_width: F, by default 4·width
        or, with as many parameters, 8/3·width of "swiglu".
      norm: before each mixer, each feed-forward and the head.
      positions: added once, at the input: "sinusoidal" (the embedding is then scaled by √width) or "learned",
        a table of max_positions entries. Rotary positions belong to the mixer.
      tie_embeddings: the head's matrix is the embedding's.
      dropout: rate, on the embedding and on every branch, where `rngs` is passed to the call.
      logits_softcap: logits become softcap · tanh(logits / softcap).
      remat: recompute each block in the backward pass. layer_scan: scan over the periods of the pattern. On a
        CPU only the two together save memory: XLA undoes the recomputation of unrolled layers there.
    """

    def __init__(
        self,
        vocab_size: int,
        width: int,
        depth: int,
        *,
        mixers: tuple[Callable[..., Mixer], ...] = (SoftmaxAttention,),
        dtype: ComputeDtype = "float32",
        feed_forward: FeedForwardChoice = "swiglu",
        feed_forward_width: int | None = None,
        norm: NormKind = "rms",
        positions: PositionChoice = "none",
        max_positions: int | None = None,
        tie_embeddings: bool = True,
        dropout: float = 0.0,
        logits_softcap: float | None = None,
        remat: bool = False,
        layer_scan: bool = False,
        rngs: nnx.Rngs,
    ):
        mixers = tuple(mixers)
        for name, value, choices in (
            ("dtype", dtype, ComputeDtype),
            ("feed_forward", feed_forward, FeedForwardChoice),
            ("norm", norm, NormKind),
            ("positions", positions, PositionChoice),
        ):
            check_choice(f"LanguageModel.{name}", value, choices)
        check_positive(
            "LanguageModel",
            vocab_size=vocab_size,
            width=width,
            depth=depth,
            feed_forward_width=feed_forward_width,
            max_positions=max_positions,
        )
        if not mixers:
            raise InputError("LanguageModel.mixers is empty; name at least one mixer, such as (@Mamba,).")
        if not 0.0 <= dropout < 1.0:
            raise InputError(f"LanguageModel.dropout is {dropout}; it must be at least 0 and below 1.")
        if logits_softcap is not None and logits_softcap <= 0:
            raise InputError(
                f"LanguageModel.logits_softcap is {logits_softcap}; it must be above 0, or None for no cap."
            )
        if positions == "learned" and max_positions is None:
            raise InputError(
                'LanguageModel.positions "learned" needs max_positions, the size of their table.'
            )
        self.vocab_size, self.width, self.dtype = vocab_size, width, dtype
        self.positions, self.max_positions = positions, max_positions
        self.dropout, self.logits_softcap = dropout, logits_softcap

        def make_block(layer: int) -> Block:
            mixer = mixers[layer % len(mixers)](width, layer=layer, layers=depth, rngs=rngs)
            inner = None
            if feed_forward != "none" and mixer.feed_forward:
                hidden = feed_forward_width or default_feed_forward_width(width, feed_forward)
                inner = FeedForward(width, hidden, kind=feed_forward, layers=depth, rngs=rngs)
            return Block(width, mixer, inner, norm=norm, dropout=dropout)

        self.embedding = Embedding(vocab_size, width, rngs=rngs)
        self.position_table = Embedding(max_positions, width, rngs=rngs) if positions == "learned" else None
        self.layers = LayerStack(make_block, depth, period=len(mixers), scan=layer_scan, remat=remat)
        self.final_norm = make_norm(norm, width)
        self.unembedding = None if tie_embeddings else Linear(width, vocab_size, rngs=rngs)

    def __call__(
        self,
        tokens: jax.Array,
        segment_ids: jax.Array | None = None,
        state: ModelState | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> tuple[jax.Array, ModelState]:
        """(logits [B, T, vocab_size] float32, state): `head` of `features`, whose arguments these are."""
        x, state = self.features(tokens, segment_ids=segment_ids, state=state, rngs=rngs)
        return self.head(x), state

    def features(
        self,
        tokens: jax.Array,
        segment_ids: jax.Array | None = None,
        state: ModelState | None = None,
        rngs: nnx.Rngs | None = None,
    ) -> tuple[jax.Array, ModelState]:
        """Everything but the head: (x [B, T, D], state).

        tokens: [B, T] int32, each in 0 .. vocab_size − 1; another id raises InputError, or in compiled code
          gives NaN. segment_ids: [B, T] int32, 0 for padding; None continues the document of the state.
        state: None is the empty one. rngs: turns dropout on.
        """
        tokens = jnp.asarray(tokens)
        if segment_ids is not None and segment_ids.shape != tokens.shape:
            raise InputError(
                f"segment_ids has shape {list(segment_ids.shape)}, but tokens has {list(tokens.shape)}."
            )
        if not isinstance(tokens, jax.core.Tracer):
            ids = np.asarray(tokens)
            if ids.size and (ids.min() < 0 or ids.max() >= self.vocab_size):
                raise InputError(
                    f"tokens holds ids from {ids.min()} to {ids.max()}; the model knows 0 to "
                    f"{self.vocab_size - 1}."
                )
        key = rngs.dropout() if rngs is not None and self.dropout > 0.0 else None
        empty = jnp.zeros(tokens.shape[0], jnp.int32)
        before = ModelState((), empty, empty) if state is None else state._replace(layers=())
        before = resume(before, segment_ids)
        x = self.embed(tokens, segment_ids, before.position)
        x = dropout(x, self.dropout, None if key is None else jax.random.fold_in(key, self.layers.depth))
        states = None if state is None else state.layers
        x, states = self.layers(x, segment_ids=segment_ids, states=states, key=key)
        position = current_position(segment_ids, before.position, tokens.shape[1])
        after = ModelState(states, current_id(segment_ids, before.last_id), position)
        return self.final_norm(x), after

    def embed(self, tokens: jax.Array, segment_ids: jax.Array | None, first: jax.Array) -> jax.Array:
        """What enters the first layer, [B, T, D] in the compute dtype: the vectors of tokens [B, T] int32,
        and absolute positions counted from `first` [B] int32.
        """
        with jax.named_scope("embedding"):
            x = self.embedding(tokens)
            if self.positions != "none":
                places = positions(segment_ids, first, tokens.shape[1])
                if self.positions == "sinusoidal":
                    x = x * self.width**0.5 + sinusoidal(places, self.width)
                else:
                    x = x + self._learned(places, segment_ids)
            return x.astype(self.dtype)

    def _learned(self, places, segment_ids):
        """Entries of the position table; past its end an error, or NaN where compiled code cannot raise."""
        real = True if segment_ids is None else segment_ids != 0
        past = (places >= self.max_positions) & real
        if not isinstance(past, jax.core.Tracer) and past.any():
            raise InputError(
                f"A document has {int(places.max()) + 1} tokens and LanguageModel.max_positions is "
                f"{self.max_positions}; learned positions end there."
            )
        # At padding nothing reads the value, but it must be finite.
        return self.position_table(jnp.where(real, places, 0))

    def head(self, x: jax.Array) -> jax.Array:
        """x [..., T, D] -> logits [..., T, vocab_size] float32."""
        with jax.named_scope("head"):
            if self.unembedding is None:
                logits = self.embedding.logits(x)
            else:
                kernel = self.unembedding.kernel[...].astype(x.dtype)
                logits = product(x, kernel, dtype=jnp.float32)
            if self.logits_softcap is not None:
                logits = self.logits_softcap * jnp.tanh(logits / self.logits_softcap)
            return logits

    def init_state(self, batch_size: int, max_length: int) -> ModelState:
        """The empty state, whose caches hold `max_length` tokens a row."""
        layers = self.layers.init_state(batch_size, max_length, jnp.dtype(self.dtype))
        return ModelState(layers, jnp.zeros(batch_size, jnp.int32), jnp.zeros(batch_size, jnp.int32))


ModelClass = Callable[..., LanguageModel]


def build(model_class: ModelClass, vocab_size: int, seed: int = 0) -> tuple[nnx.GraphDef, dict, dict]:
    """(graphdef, params, decays) of a new model.

    model_class: called as model_class(vocab_size, rngs=...); LanguageModel with its other arguments bound.
    params: nested dict of float32 arrays, for nnx.merge(graphdef, params). decays: the same tree of bool,
    whether weight decay acts on each.
    """
    return _split(model_class(vocab_size, rngs=nnx.Rngs(seed)))


def abstract(model_class: ModelClass, vocab_size: int) -> tuple[nnx.GraphDef, dict, dict]:
    """`build` with jax.ShapeDtypeStruct in place of arrays: nothing is computed."""
    return _split(nnx.eval_shape(lambda: model_class(vocab_size, rngs=nnx.Rngs(0))))


def _split(model):
    graphdef, params = nnx.split(model, nnx.Param)
    decays = jax.tree.map(
        lambda param: bool(param.get_metadata().get("weight_decay", True)),
        params,
        is_leaf=lambda leaf: isinstance(leaf, nnx.Variable),
    )
    return graphdef, nnx.to_pure_dict(params), nnx.to_pure_dict(decays)
