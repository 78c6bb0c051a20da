"""One layer: a mixer over time and a feed-forward over channels, each normalised first and added back."""

from typing import Any, Literal

import jax
from flax import nnx

from seqmodels.mixers.base import Costs, Mixer
from seqmodels.nn.dropout import dropout
from seqmodels.nn.feed_forward import FeedForward
from seqmodels.nn.norms import LayerNorm, RMSNorm

NormKind = Literal["rms", "layer"]


def make_norm(kind: NormKind, width: int) -> RMSNorm | LayerNorm:
    """The norm of that name over the last axis."""
    return RMSNorm(width) if kind == "rms" else LayerNorm(width)


class Block(nnx.Module):
    """x ← x + mixer(norm(x)), then x ← x + feed_forward(norm(x)) where there is one (pre-norm).

    feed_forward: None where the mixer is the whole block. dropout: rate, on each branch before it is added.
    """

    def __init__(
        self, width: int, mixer: Mixer, feed_forward: FeedForward | None, *, norm: NormKind, dropout: float
    ):
        self.mixer_norm = make_norm(norm, width)
        self.mixer = mixer
        self.feed_forward_norm = None if feed_forward is None else make_norm(norm, width)
        self.feed_forward = feed_forward
        self.dropout = dropout

    def __call__(
        self, x: jax.Array, *, segment_ids: jax.Array | None, state: Any, key: jax.Array | None
    ) -> tuple[jax.Array, Any]:
        """x [B, T, D] -> (x [B, T, D], the mixer's state). key: for dropout; None: no dropout."""
        of_mixer, after_mixer, after_feed_forward = (None,) * 3 if key is None else jax.random.split(key, 3)
        with jax.named_scope(type(self.mixer).__name__):
            rngs = None if key is None else nnx.Rngs(of_mixer)
            y, state = self.mixer(self.mixer_norm(x), segment_ids=segment_ids, state=state, rngs=rngs)
            x = x + dropout(y, self.dropout, after_mixer)
        if self.feed_forward is not None:
            with jax.named_scope("feed_forward"):
                y = self.feed_forward(self.feed_forward_norm(x))
                x = x + dropout(y, self.dropout, after_feed_forward)
        return x, state

    def costs(self, length: int) -> Costs:
        """Those of the mixer and the feed-forward."""
        costs = self.mixer.costs(length)
        if self.feed_forward is None:
            return costs
        return costs._replace(flops_per_token=costs.flops_per_token + self.feed_forward.flops_per_token())
