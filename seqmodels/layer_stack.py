"""The layers of a model one after another, unrolled or as a scan over the periods of their pattern."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from seqmodels.block import Block
from seqmodels.errors import InputError
from seqmodels.mixers.base import Costs


class LayerStack(nnx.Module):
    """`depth` blocks, in a pattern that repeats every `period` layers.

    make_block: builds the block of a layer; called in order, so that both layouts draw the same parameters.
    scan: keep one period's blocks with the parameters of all periods stacked, and scan over the periods: the
      program then grows with the pattern, not the depth. With a state the layers still run one by one.
    remat: recompute a block's inside in the backward pass instead of keeping it.
    """

    def __init__(
        self, make_block: Callable[[int], Block], depth: int, *, period: int, scan: bool, remat: bool
    ):
        self.depth, self.scan, self.remat = depth, scan, remat
        blocks = [make_block(layer) for layer in range(depth)]
        if scan:
            if depth % period:
                raise InputError(
                    f"LanguageModel.depth is {depth}; with layer_scan it must be a multiple of the pattern's "
                    f"{period} mixers."
                )
            blocks = [_stacked(blocks[offset::period]) for offset in range(period)]
        self.blocks = nnx.List(blocks)

    def __call__(
        self,
        x: jax.Array,
        *,
        segment_ids: jax.Array | None,
        states: tuple[Any, ...] | None,
        key: jax.Array | None,
    ) -> tuple[jax.Array, tuple[Any, ...]]:
        """x [B, T, D], and one state a layer or None -> the same. Layer i drops out by fold_in(key, i)."""
        if self.scan and states is None:
            return self._scan(x, segment_ids, key)
        after = []
        for layer in range(self.depth):
            state = None if states is None else states[layer]
            x, state = self._apply(self.block(layer), layer, x, segment_ids, state, key)
            after.append(state)
        return x, tuple(after)

    def _apply(self, block, layer, x, segment_ids, state, key):
        def run(x, state):
            layer_key = None if key is None else jax.random.fold_in(key, layer)
            return block(x, segment_ids=segment_ids, state=state, key=layer_key)

        # Inside a scan the loop itself keeps the compiler from merging the recomputation with the first pass.
        return (jax.checkpoint(run, prevent_cse=not self.scan) if self.remat else run)(x, state)

    def _scan(self, x, segment_ids, key):
        graphdef, stacked = nnx.split(self.blocks, nnx.Param)
        period = len(self.blocks)

        def body(x, scanned):
            index, params = scanned
            states = []
            for offset, block in enumerate(nnx.merge(graphdef, params)):
                block.mixer.layer = layer = index * period + offset
                x, state = self._apply(block, layer, x, segment_ids, None, key)
                states.append(state)
            return x, tuple(states)

        periods = self.depth // period
        x, states = jax.lax.scan(body, x, (jnp.arange(periods, dtype=jnp.int32), stacked))
        return x, tuple(_at(period, state) for period in range(periods) for state in states)

    def block(self, layer: int) -> Block:
        """The block of a layer, with that layer's own parameters."""
        if not self.scan:
            return self.blocks[layer]
        period = len(self.blocks)
        graphdef, stacked = nnx.split(self.blocks[layer % period], nnx.Param)
        block = nnx.merge(graphdef, _at(layer // period, stacked))
        block.mixer.layer = layer
        return block

    def init_state(self, batch_size: int, max_length: int, dtype) -> tuple[Any, ...]:
        """The empty state of every layer."""
        return tuple(
            self._shapes(layer).mixer.init_state(batch_size, max_length, dtype) for layer in range(self.depth)
        )

    def costs(self, length: int) -> tuple[Costs, ...]:
        """What every layer costs in a sequence of `length` tokens."""
        return tuple(self._shapes(layer).costs(length) for layer in range(self.depth))

    def _shapes(self, layer):
        """The block of a layer with shapes in place of parameters: enough for whatever does not compute."""
        graphdef, params = nnx.split(self.blocks[layer % len(self.blocks)], nnx.Param)
        first = 1 if self.scan else 0
        shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[first:], leaf.dtype), params)
        return nnx.merge(graphdef, shapes)


def _stacked(blocks: list[Block]) -> Block:
    """One block whose parameters are those of all, along a new first axis."""
    graphdef, _ = nnx.split(blocks[0], nnx.Param)
    states = [nnx.split(block, nnx.Param)[1] for block in blocks]
    return nnx.merge(graphdef, jax.tree.map(lambda *leaves: jnp.stack(leaves), *states))


def _at(index, stacked):
    """The entry of a stacked tree."""
    return jax.tree.map(lambda leaf: leaf[index], stacked)
