"""Interventions on states: what is changed, and that nothing else reaches the query of a real model."""

import jax
import numpy as np
import pytest

from seqmodels.evaluation.model_scorer import ModelScorer
from seqmodels.evaluation.state_interventions import quantised, without_all_layers, without_layer
from seqmodels.mixers import MIXERS, LinearAttention, SoftmaxAttention
from tests.evaluation.intervention_oracles import TASK, Layer, State, rows
from tests.evaluation.test_model_scorer import MODELS, make


def test_quantised_to_bits():
    """Levels of another number, one scale for all rows, or a rounded count would each change what b means."""
    x = np.array([[1.0, -0.4, 0.26, 0.0], [8.0, -1.0, 3.0, 0.0]], np.float32)
    state = State((Layer(x, np.array([7, 300], np.int32)),))
    for bits, expected in (
        (2, [[1, 0, 0, 0], [8, 0, 0, 0]]),
        (3, [[1, -1 / 3, 1 / 3, 0], [8, 0, 8 / 3, 0]]),
        (1, [[1.66 / 3, -1.66 / 3, 1.66 / 3, 0], [4, -4, 4, 0]]),
    ):
        layer = quantised(state, bits).layers[0]
        np.testing.assert_allclose(layer.memory, expected, rtol=1e-6)
        np.testing.assert_array_equal(layer.last_id, [7, 300])
    for bits in (4, 8):
        error = np.abs(quantised(state, bits).layers[0].memory - x).max(axis=1)
        assert (error <= x.max(axis=1) / (2 ** (bits - 1) - 1) / 2 + 1e-6).all()
    with pytest.raises(ValueError, match="at least 1"):
        quantised(state, 0)


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return make(MIXERS[request.param], vocab_size=TASK.vocab_size)


def test_a_row_in_two_pieces_is_the_whole_row(model):
    """Interventions on the state change nothing else: without one, the split itself must not show."""
    scorer, tokens = ModelScorer(*model), rows(6).tokens
    ones, last = np.ones_like(tokens), np.full((6, 1), tokens.shape[1] - 1, np.int32)
    whole = scorer.logits(tokens, ones, last)
    state = scorer.state_after(tokens[:, :8], ones[:, :8], scorer.init_state(6, tokens.shape[1]))
    split = scorer.logits_from_state(tokens[:, 8:], ones[:, 8:], last - 8, state)
    np.testing.assert_allclose(split, whole, rtol=1e-5, atol=1e-5)
    # Nothing reaches the query beside the state: emptied, it leaves what the rest alone gives.
    alone = scorer.logits(tokens[:, 8:], ones[:, 8:], last - 8)
    emptied = scorer.logits_from_state(tokens[:, 8:], ones[:, 8:], last - 8, without_all_layers(state))
    np.testing.assert_allclose(emptied, alone, rtol=1e-5, atol=1e-5)
    assert np.abs(emptied - whole).max() > 1e-4


def test_an_emptied_cache_holds_no_token():
    """Slots of zeros that count as tokens would dilute all that follows, which is no loss of memory."""
    scorer, tokens = (
        ModelScorer(*make(SoftmaxAttention, LinearAttention, vocab_size=TASK.vocab_size)),
        rows(4).tokens,
    )
    ones = np.ones_like(tokens)
    state = scorer.state_after(tokens[:, :8], ones[:, :8], scorer.init_state(4, tokens.shape[1]))
    emptied = without_layer(state, 0)
    assert (np.asarray(emptied.layers[0].position) == 0).all()
    assert (np.asarray(emptied.position) == 8).all()
    for kept, before in zip(
        jax.tree.leaves(emptied.layers[1]), jax.tree.leaves(state.layers[1]), strict=True
    ):
        np.testing.assert_array_equal(kept, before)
    rounded = quantised(state, 8)
    for name in ("position", "last_id"):
        np.testing.assert_array_equal(getattr(rounded.layers[0], name), getattr(state.layers[0], name))
