"""What a model costs: parameters, FLOPs, bytes of state and bytes moved, by formula.

A FLOP is one addition or one multiplication, so a multiply-add is two. Formulas count products, convolutions
and recurrences; `counted_flops` is what to check them against.
"""

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from seqmodels.mixers.base import Costs

# Where a parameter belongs, by the first of these names on its path.
PARTS = {
    "embedding": "embedding",
    "position_table": "positions",
    "mixer": "mixers",
    "feed_forward": "feed-forward",
    "mixer_norm": "norms",
    "feed_forward_norm": "norms",
    "final_norm": "norms",
    "unembedding": "head",
}


def parameters_by_part(params: dict) -> dict[str, int]:
    """The number of parameters in each part of a model; a tied head has none of its own."""
    counts = dict.fromkeys(PARTS.values(), 0)
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        part = next(PARTS[entry.key] for entry in path if entry.key in PARTS)
        counts[part] += leaf.size
    return {part: count for part, count in counts.items() if count}


def model_costs(model, length: int) -> Costs:
    """Forward FLOPs a token among `length`, head included, and numbers in the state of a row of them."""
    layers = model.layers.costs(length)
    head = 2 * model.width * model.vocab_size
    return Costs(head + sum(c.flops_per_token for c in layers), sum(c.state_elements for c in layers))


def state_bytes(model, length: int, batch_size: int = 1) -> int:
    """Bytes of the state of `batch_size` rows that hold `length` tokens."""
    return tree_bytes(jax.eval_shape(lambda: model.init_state(batch_size, length)))


def bytes_moved(model, params: dict, length: int, batch_size: int = 1) -> int:
    """Bytes read to decode one token in each row: every parameter once, and the states of all rows once.

    Over the bandwidth of the memory that is the least time of a step, whatever its FLOPs.
    """
    return tree_bytes(params) + state_bytes(model, length, batch_size)


def host_memory() -> int:
    """Bytes of memory in this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def device_memory() -> int:
    """Bytes of memory of one device; on a CPU that of the machine."""
    of_device = jax.local_devices()[0].memory_stats() or {}  # None on CPUs
    return of_device.get("bytes_limit", host_memory())


def tree_bytes(tree: Any) -> int:
    """Bytes of all arrays of a tree."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def kv_cache_bytes(*, batch: int, layers: int, length: int, width: int, itemsize: int) -> int:
    """2·B·L·n·d·bytes: keys and values of `length` tokens, d = kv_heads · head_dim numbers each."""
    return 2 * batch * layers * length * width * itemsize


class TransformerSizes(NamedTuple):
    """One layer of a Transformer, and the head: D, H, G, K, F of a gated feed-forward, vocabulary."""

    width: int
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    vocabulary: int


def transformer_flops(s: TransformerSizes, *, queries: int, keys: int, new_keys: int) -> dict[str, int]:
    """FLOPs of each part of a layer, and of the head, for `queries` tokens that each read `keys` tokens.

    new_keys: tokens whose keys and values are computed now. Prefill of n tokens: all three are n. Decoding
    the n-th: 1, n, 1. Cross-attention of m tokens to n: m, n, n.
    """
    scores = 2 * queries * keys * s.heads * s.head_dim
    return {
        "embedding": 0,  # a lookup
        "query projection": 2 * queries * s.width * s.heads * s.head_dim,
        "key, value projections": 2 * 2 * new_keys * s.width * s.kv_heads * s.head_dim,
        "scores": scores,
        "softmax": 4 * queries * keys * s.heads,  # maximum, difference, sum, quotient; exponentials apart
        "values": scores,
        "output projection": 2 * queries * s.heads * s.head_dim * s.width,
        "norms": 2 * 4 * queries * s.width,  # two: square, sum, product, scale
        "feed-forward": 3 * 2 * queries * s.width * s.hidden,
        "vocabulary head": 2 * queries * s.width * s.vocabulary,
    }


def counted_flops(function: Callable, *arguments: Any) -> float:
    """XLA's own count for a function of arrays or shapes, lowered, not compiled; loop bodies count once."""
    return jax.jit(function).lower(*arguments).cost_analysis()["flops"]
