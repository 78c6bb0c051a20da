"""Norms of gradients, parameters and updates by the kind of layer they belong to."""

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from seqmodels.mixers.base import Mixer
from seqmodels.nn.feed_forward import FeedForward
from seqmodels.nn.linear import Embedding
from seqmodels.nn.norms import LayerNorm, RMSNorm

KINDS = {FeedForward: "feed_forward", RMSNorm: "norm", LayerNorm: "norm", Embedding: "embedding"}


def kinds_of_layers(graphdef: nnx.GraphDef, params: Any) -> Any:
    """A tree like `params` of kinds: the mixer's class, "feed_forward", "norm", "embedding" or "head".

    The kind is that of the outermost such module on the way to the parameter: the norm inside a mixer is the
    mixer's.
    """
    model = nnx.merge(graphdef, params)

    def kind(path: tuple, _: Any) -> str:
        module = model
        for key in path:
            module = module[key.key] if isinstance(key.key, int) else getattr(module, key.key)
            if isinstance(module, Mixer):
                return type(module).__name__
            for kind_class, name in KINDS.items():
                if isinstance(module, kind_class):
                    return name
        return "head"

    return jax.tree.map_with_path(kind, params)


def norms_by_kind(tree: Any, kinds: Any) -> dict[str, jax.Array]:
    """The Euclidean norm of all leaves of each kind, in float32; `kinds` is a tree like `tree`."""
    squares: dict[str, jax.Array] = {}
    for kind, leaf in zip(jax.tree.leaves(kinds), jax.tree.leaves(tree), strict=True):
        square = jnp.sum(jnp.square(leaf.astype(jnp.float32)))
        squares[kind] = squares.get(kind, jnp.zeros((), jnp.float32)) + square
    return {kind: jnp.sqrt(square) for kind, square in sorted(squares.items())}
