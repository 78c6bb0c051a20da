"""How far back a prediction depends on its tokens, on predictors whose reach is known."""

import numpy as np
import pytest

from seqmodels.evaluation.impulse_response import ImpulseResponse, by_lag
from seqmodels.evaluation.memory_rows import MemoryRows
from seqmodels.evaluation.receptive_field import disagreement, replacement
from tests.evaluation.oracles import uniform

VOCABULARY = 16


class OneToken:
    """Predicts, with near certainty, the token that stands `distance` before."""

    vocab_size = VOCABULARY

    def __init__(self, distance):
        self._distance = distance

    def logits(self, tokens, segment_ids, positions):
        out = np.zeros((*positions.shape, VOCABULARY), np.float32)
        seen = np.take_along_axis(tokens, positions - self._distance, axis=1)
        np.put_along_axis(out, seen[..., None], 9.0, axis=-1)
        return out


def rows(count=40, length=64, last=60):
    tokens = np.random.default_rng(0).integers(0, VOCABULARY, (count, length)).astype(np.int32)
    return MemoryRows(
        tokens=tokens,
        segment_ids=(np.arange(length) <= last).astype(np.int32) * np.ones_like(tokens),
        last=np.full(count, last, np.int32),
        target=tokens[:, last - 8],
        kinds=("text",),
        kind=np.where(np.arange(length) <= last, 0, -1) * np.ones_like(tokens),
        about={},
    )


@pytest.mark.parametrize("distance", [4, 8, 32])
def test_replacement_ends_behind_the_token_that_is_read(distance):
    """Replaced from its own distance on the prediction changes, from the next one on it does not."""
    found = replacement(OneToken(distance), rows(), batch_size=7)
    assert found.distances.tolist() == [1, 2, 4, 8, 16, 32]
    changed = np.array([estimate.value for estimate in found.curve]) > 0.1
    np.testing.assert_array_equal(changed, found.distances <= distance)
    reach = found.reach(0.9)
    if distance == 32:
        assert reach.value == np.inf
    else:
        assert distance <= reach.low <= reach.value <= reach.high < 2 * distance
    assert found.reach(0.5).value <= reach.value


def test_loss_of_the_right_token():
    """In bits, and only where the token that gives it away is gone."""
    found = replacement(OneToken(8), rows(), batch_size=40)
    loss = found.loss.mean(axis=0)
    assert (loss[found.distances <= 8] > 8).all()
    np.testing.assert_allclose(loss[found.distances > 8], 0, atol=1e-6)


def test_whatever_the_batch():
    """Padding of the last batch must not be counted as a row."""
    one, other = (replacement(OneToken(8), rows(), batch_size=size) for size in (7, 64))
    np.testing.assert_array_equal(one.divergence, other.divergence)


def test_no_reach_without_change():
    """A predictor without context reaches nothing, and nothing is divided by 0."""
    found = replacement(uniform(VOCABULARY), rows(), batch_size=8)
    assert found.reach(0.9) == (0, 0, 0)


def test_gradient_mass_of_an_exponential():
    """1 − a^(d+1) of the sum of a^τ lies within d."""
    response = ImpulseResponse(np.tile(0.9 ** np.arange(400), (5, 1)), start=1)
    reach = response.reach(0.9)
    assert reach.value == pytest.approx(np.log(0.1) / np.log(0.9) - 1, abs=0.1)
    assert response.half_life.value == pytest.approx(np.log(0.5) / np.log(0.9), rel=2e-3)
    flat = ImpulseResponse(np.ones((5, 400)), start=5)
    assert flat.half_life.value == np.inf
    assert np.isnan(ImpulseResponse(np.ones((5, 4)), start=5).half_life.value)
    assert np.isnan(ImpulseResponse(np.zeros((5, 9)), start=1).reach(0.9).value)


def test_lags_count_back_from_the_prediction():
    """Padding and later tokens are no lags."""
    response = np.arange(12.0).reshape(2, 6)
    np.testing.assert_array_equal(by_lag(response, np.array([3, 5]), 4), [[3, 2, 1, 0], [11, 10, 9, 8]])


def test_what_counts_as_a_disagreement():
    """More than a factor of 2; where one was not reached, the longest distance measured stands for it."""
    longest = {"gradient": 60.0, "replacement": 60.0, "behaviour": 256.0}
    fields = {"gradient": 20.0, "replacement": 35.0, "behaviour": 30.0}
    assert disagreement(fields, longest) is None
    found = disagreement({**fields, "behaviour": np.inf}, longest)
    assert found == "behaviour reaches more than 256 tokens, gradient 20"
    assert disagreement({"gradient": 20.0, "replacement": np.nan}, longest) is None
