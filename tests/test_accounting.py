"""Counts of parameters, FLOPs and bytes against counts of another kind."""

import functools

import jax
import pytest
from flax import nnx

from seqmodels.accounting import (
    TransformerSizes,
    bytes_moved,
    kv_cache_bytes,
    model_costs,
    parameters_by_part,
    state_bytes,
    transformer_flops,
    tree_bytes,
)
from seqmodels.language_model import LanguageModel, abstract
from seqmodels.mixers import LinearAttention, Mamba, SoftmaxAttention

VOCABULARY, WIDTH = 300, 64


def made(**settings):
    settings = {"mixers": (SoftmaxAttention, Mamba), "depth": 4, **settings}
    return functools.partial(LanguageModel, width=WIDTH, **settings)


def test_parameters_by_part_add_up():
    """By hand, and the same whether the layers are stacked or not."""
    for layer_scan in (False, True):
        settings = {"positions": "learned", "max_positions": 10, "tie_embeddings": False}
        _, params, _ = abstract(made(layer_scan=layer_scan, **settings), VOCABULARY)
        parts = parameters_by_part(params)
        assert sum(parts.values()) == sum(leaf.size for leaf in jax.tree.leaves(params))
        assert parts["embedding"] == parts["head"] == VOCABULARY * WIDTH
        assert parts["positions"] == 10 * WIDTH
        assert parts["feed-forward"] == 2 * 3 * WIDTH * 192  # two layers have one; 8/3 of 64, rounded up
        assert parts["norms"] == (4 + 2 + 1) * WIDTH
    assert "head" not in parameters_by_part(abstract(made(), VOCABULARY)[1])


@pytest.mark.parametrize("layer_scan", [False, True])
def test_model_costs_are_those_of_the_program(layer_scan):
    """Against XLA's count of one decode step, where nothing is in a loop."""
    graphdef, params, _ = abstract(
        functools.partial(made(layer_scan=layer_scan, mixers=(SoftmaxAttention, LinearAttention)), depth=2),
        VOCABULARY,
    )
    model = nnx.merge(graphdef, params)
    costs = model_costs(model, 96)
    state = jax.eval_shape(lambda: model.init_state(1, 96))

    def step(params, tokens, state):
        return nnx.merge(graphdef, params)(tokens, state=state)

    tokens = jax.ShapeDtypeStruct((1, 1), "int32")
    counted = jax.jit(step).lower(params, tokens, state).cost_analysis()["flops"]
    assert costs.flops_per_token == pytest.approx(counted, rel=0.05)
    # At width 64 a head of 64 keeps 64 x 64 numbers and their sum; a cache keeps two vectors a token.
    assert costs.state_elements == 2 * 64 * 96 + 64 * 64 + 64


def test_state_bytes_and_bytes_moved():
    """A cache in bfloat16 takes half; recurrent states are float32 whatever the compute dtype."""
    for dtype, size in (("float32", 4), ("bfloat16", 2)):
        graphdef, params, _ = abstract(made(mixers=(SoftmaxAttention,), depth=3, dtype=dtype), VOCABULARY)
        model = nnx.merge(graphdef, params)
        cache = kv_cache_bytes(batch=2, layers=3, length=50, width=WIDTH, itemsize=size)
        counters = 2 * 4 * (3 * 2 + 2)  # last_id and position of every layer and of the model, two rows
        assert state_bytes(model, 50, batch_size=2) == cache + counters
        assert bytes_moved(model, params, 50, batch_size=2) == cache + counters + tree_bytes(params)


def test_transformer_flops_by_hand():
    """Grouped heads save on keys and values alone; decoding computes one key and reads all."""
    sizes = TransformerSizes(width=8, heads=4, kv_heads=2, head_dim=2, hidden=16, vocabulary=10)
    flops = transformer_flops(sizes, queries=3, keys=5, new_keys=5)
    assert flops["query projection"] == flops["output projection"] == 2 * 3 * 8 * 8
    assert flops["key, value projections"] == 2 * (2 * 5 * 8 * 4)
    assert flops["scores"] == flops["values"] == 2 * 3 * 5 * 8
    assert flops["feed-forward"] == 3 * 2 * 3 * 8 * 16
    assert flops["vocabulary head"] == 2 * 3 * 8 * 10
    decode = transformer_flops(sizes, queries=1, keys=5, new_keys=1)
    assert decode["key, value projections"] == 2 * (2 * 8 * 4)
    assert decode["scores"] == 2 * 5 * 8
