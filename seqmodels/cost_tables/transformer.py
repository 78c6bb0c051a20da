"""The parts of a Transformer's layer, and its cache: by formula, and by counting what the modules do."""

from collections.abc import Iterator
from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx

from seqmodels.accounting import (
    TransformerSizes,
    counted_flops,
    kv_cache_bytes,
    transformer_flops,
    tree_bytes,
)
from seqmodels.block import Block
from seqmodels.cost_tables.table import Table, close, compact, shape
from seqmodels.language_model import LanguageModel
from seqmodels.mixers import SoftmaxAttention
from seqmodels.nn.feed_forward import FeedForward
from seqmodels.nn.linear import Embedding, Linear
from seqmodels.nn.norms import RMSNorm

SIZES = TransformerSizes(width=256, heads=4, kv_heads=4, head_dim=64, hidden=704, vocabulary=1024)
CASES = {
    "prefill": {"queries": 256, "keys": 256, "new_keys": 256},
    "decode": {"queries": 1, "keys": 256, "new_keys": 1},
    "cross": {"queries": 64, "keys": 256, "new_keys": 256},
}


def _modules(sizes):
    """The parts of a Transformer as the model builds them."""
    rngs = nnx.Rngs(0)
    queries, keys = sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
    attention = SoftmaxAttention(
        sizes.width, heads=sizes.heads, kv_heads=sizes.kv_heads, method="parallel", rngs=rngs
    )  # XLA counts the body of a loop once, so the form without loops
    feed_forward = FeedForward(sizes.width, sizes.hidden, kind="swiglu", layers=1, rngs=rngs)
    return {
        "embedding": Embedding(sizes.vocabulary, sizes.width, rngs=rngs),
        "query": Linear(sizes.width, queries, rngs=rngs),
        "key": Linear(sizes.width, keys, rngs=rngs),
        "output": Linear(queries, sizes.width, rngs=rngs),
        "norm": RMSNorm(sizes.width),
        "feed_forward": feed_forward,
        "block": Block(sizes.width, attention, feed_forward, norm="rms", dropout=0.0),
    }


def _counts(sizes, modules, *, queries, keys, new_keys):
    """XLA's count of each part, from the modules themselves."""

    def applied(name, *array):
        graphdef, params = nnx.split(modules[name], nnx.Param)
        return counted_flops(lambda params, x: nnx.merge(graphdef, params)(x), params, *array)

    x, heads = shape(1, queries, sizes.width), (1, queries, sizes.heads, sizes.head_dim)
    ids = jax.ShapeDtypeStruct((1, queries), jnp.int32)
    k, weights = shape(1, keys, sizes.heads, sizes.head_dim), shape(1, sizes.heads, queries, keys)
    table = modules["embedding"]
    return {
        "embedding": applied("embedding", ids),
        "query projection": applied("query", x),
        "key, value projections": 2 * applied("key", shape(1, new_keys, sizes.width)),
        "scores": counted_flops(partial(jnp.einsum, "bthk,bshk->bhts"), shape(*heads), k),
        "softmax": counted_flops(partial(jax.nn.softmax, axis=-1), weights),
        "values": counted_flops(partial(jnp.einsum, "bhts,bshv->bthv"), weights, k),
        "output projection": applied("output", shape(1, queries, sizes.heads * sizes.head_dim)),
        "norms": 2 * applied("norm", x),
        "feed-forward": applied("feed_forward", x),
        "vocabulary head": counted_flops(table.logits, x),
    }


def layer() -> Table:
    """Each part of a Transformer's layer and its head, by formula and by XLA's count, in three uses."""
    s = SIZES
    table = Table(
        f"A Transformer: D {s.width}, H {s.heads}, K {s.head_dim}, F {s.hidden}, V {s.vocabulary:,}",
        ("FLOPs", *(name for case in CASES for name in (case, "by count"))),
        note="one layer and the head; prefill of 256 tokens, decode of the 256th, cross: 64 read 256;\n"
        "the count holds the feed-forward's elementwise functions and the lookup too",
    )
    modules = _modules(s)
    formulas = [transformer_flops(s, **case) for case in CASES.values()]
    counts = [_counts(s, modules, **case) for case in CASES.values()]
    for part in formulas[0]:
        cells = [compact(way[part]) for pair in zip(formulas, counts, strict=True) for way in pair]
        table.rows.append((part, *cells))
        for case, formula, count in zip(CASES, formulas, counts, strict=True):
            small = abs(count[part] - formula[part]) <= 0.005 * sum(formula.values())
            table.checks.append((f"{part}, {case}", small or close(count[part], formula[part])))
    totals = [sum(way.values()) for pair in zip(formulas, counts, strict=True) for way in pair]
    table.rows.append(("all", *map(compact, totals)))
    table.checks += list(_whole_layers(s, modules["block"], formulas))
    return table


def _whole_layers(sizes, block, formulas) -> Iterator[tuple[str, bool]]:
    """The real block, prefilled and stepped, against the sum of its parts."""
    graphdef, params = nnx.split(block, nnx.Param)
    state = block.mixer.init_state(1, CASES["decode"]["keys"])

    def run(params, x, state):
        return nnx.merge(graphdef, params)(x, segment_ids=None, state=state, key=None)[0]

    for case, formula, before in zip(("prefill", "decode"), formulas[:2], (None, state), strict=True):
        count = counted_flops(run, params, shape(1, CASES[case]["queries"], sizes.width), before)
        layer = sum(formula.values()) - formula["vocabulary head"]
        yield f"the whole layer, {case}", close(count, layer)


def caches() -> Table:
    """2·B·L·n·d·bytes for all, grouped and one pair of key/value heads, against the model's own state."""
    batch, layers, length, heads, head_dim = 4, 12, 4096, 12, 64
    table = Table(
        f"KV cache: B = {batch}, L = {layers}, n = {length:,}, {heads} heads of {head_dim}",
        ("heads", "key/value heads", "d", "float32", "bfloat16", "in the model"),
        note="2·B·L·n·d·bytes, in MiB; in the model: of its state in bfloat16",
    )
    for name, kv_heads in (("multi-head", heads), ("grouped-query", 4), ("multi-query", 1)):
        attention = partial(SoftmaxAttention, heads=heads, kv_heads=kv_heads)
        make = partial(LanguageModel, 256, heads * head_dim, layers, mixers=(attention,), dtype="bfloat16")
        state = nnx.eval_shape(lambda make=make: make(rngs=nnx.Rngs(0)).init_state(batch, length))
        held = tree_bytes([(layer.keys, layer.values) for layer in state.layers])
        width = kv_heads * head_dim
        by_dtype = [
            kv_cache_bytes(batch=batch, layers=layers, length=length, width=width, itemsize=size)
            for size in (4, 2)
        ]
        cells = (f"{size / 2**20:,.0f}" for size in (*by_dtype, held))
        table.rows.append((name, str(kv_heads), str(width), *cells))
        table.checks.append((f"the cache of {name} attention", held == by_dtype[1]))
    return table
