"""The size of a state and its formula, for every mixer, against what the accounting counts."""

import jax.numpy as jnp
import pytest
from flax import nnx

from seqmodels.evaluation.state_sizes import state_size
from seqmodels.mixers import MIXERS
from seqmodels.mixers.base import state_elements

LENGTH = 64


def built(name, **settings):
    return nnx.eval_shape(lambda: MIXERS[name](64, rngs=nnx.Rngs(0), **settings))


def value(formula):
    """What "a 2 · L + b 3 × 4 · 5" comes to."""
    total = 0
    for term in filter(None, formula.split(" + ")):
        factors = term.split(" ", 1)[1].replace("×", "·").split(" · ")
        product = 1
        for factor in factors:
            product *= eval(factor, {"L": LENGTH})
        total += product
    return total


@pytest.mark.parametrize("name", MIXERS)
def test_the_formula_gives_the_elements(name):
    """A window, a normaliser or a dimension left out would make one mixer look smaller than another."""
    mixer = built(name)
    size = state_size(mixer, LENGTH, jnp.float32)
    assert size.elements == state_elements(mixer, LENGTH) == value(size.formula)
    assert size.bytes > 4 * size.elements  # and the row's counters
    assert size.grows == (size.elements != state_elements(mixer, 2 * LENGTH))


def test_by_hand():
    """Normaliser, windows of three streams, the cache's length and the compute dtype."""
    size = state_size(built("LinearAttention", heads=2, conv_width=4), LENGTH, jnp.bfloat16)
    assert size.formula == "memory.kv 2 · 32 · 32 + memory.key_sum 2 · 32 + windows 3 × 3 · 64"
    assert size.window == 3
    assert size.bytes == 4 * (2 * 32 * 32 + 2 * 32) + 2 * 3 * 3 * 64 + 4
    cache = state_size(built("SoftmaxAttention", heads=2), LENGTH, jnp.float32)
    assert cache.formula == "keys 2 · L · 32 + values 2 · L · 32"
    assert cache.grows
    assert not state_size(built("SoftmaxAttention", window=16), LENGTH, jnp.float32).grows
