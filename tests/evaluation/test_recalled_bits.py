"""Recalled bits: all that was written from a perfect memory, none from a guess, part from part of one."""

import numpy as np
import pytest

from seqmodels.data.tasks.recall_at_distance import RecallAtDistance
from seqmodels.evaluation import recall, recalled_bits
from tests.evaluation.oracles import ContextFree, Copier, KeyValueMemory, uniform

TASK = RecallAtDistance(pairs=(2, 6), fillers=(0, 3), queries_per_row=3, keys=40, values=32, filler_tokens=8)


def measure(scorer, task=TASK, rows=48, **settings):
    sizes = {"training_length": 24, "longest": 72, "batch_size": 16}
    return recall.measure(scorer, task, **sizes, rows=rows, cell_rows=1, **settings).bits


def test_perfect_memory_recalls_every_bit():
    """K log2 V at each load, of which the largest is the capacity."""
    bits = measure(Copier(TASK.vocab_size, TASK.value_ids))
    assert [load.pairs for load in bits.loads] == [1, 2, 4, 6, 8, 16, 32]
    for load in bits.loads:
        assert load.bits == pytest.approx([5.0 * load.pairs] * 3, rel=1e-6)
        assert load.accuracy.value == 1.0
        assert load.trained == (load.pairs <= 6)
        assert load.queries == 48
    assert bits.capacity.value == pytest.approx(5.0 * 32)
    assert bits.capacity_per_element is None


def test_guesses_recall_nothing():
    """Uniform over the vocabulary, uniform over the values, or sure of one value: no information, no bits."""
    one_value = np.full(TASK.vocab_size, 1e-6)
    one_value[TASK.value_ids[3]] = 1
    alike = np.zeros(TASK.vocab_size)
    alike[list(TASK.value_ids)] = 1 / 32
    for scorer in (uniform(TASK.vocab_size), ContextFree(one_value / one_value.sum()), ContextFree(alike)):
        bits = measure(scorer)
        np.testing.assert_allclose([load.bits[:2] for load in bits.loads], 0.0, atol=1e-5)
        assert bits.capacity.value == pytest.approx(0.0, abs=1e-5)


def test_a_window_of_pairs_is_a_capacity_of_as_many():
    """A copier that sees 8 tokens recalls the newest 4 pairs of any load: 20 bits, however many there are."""
    bits = measure(Copier(TASK.vocab_size, TASK.value_ids, window=8), rows=96)
    for load in bits.loads:
        # The odd lucky guess of a value, at 1/32, changes nothing: bits are of probabilities.
        assert load.bits.value == pytest.approx(5.0 * min(load.pairs, 4), rel=1e-3)


def test_bits_of_a_known_mixture():
    """Octaves count by their ages; what is negative in one takes nothing from another."""
    age = np.array([0, 1, 2, 3] * 50)
    gain = np.select([age == 0, age == 1], [4.0, -9.0], np.where(age == 2, 3.0, 1.0))
    estimate, samples = recalled_bits.recalled(gain, age, 4)
    assert estimate.value == pytest.approx(4.0 + 0.0 + 2 * 2.0)
    assert estimate.low <= 8.0 <= estimate.high
    assert samples.std() == pytest.approx(2 * 1.0 / 10, rel=0.15)


def test_a_value_that_is_ruled_out_costs_its_octave_alone():
    """Its infinity of bits leaves the octave without any, and no resample as a NaN."""
    age = np.array([0, 1] * 50)
    gain = np.where(age == 0, 4.0, 3.0)
    gain[1] = -np.inf
    estimate, samples = recalled_bits.recalled(gain, age, 2)
    assert estimate == pytest.approx((4.0, 4.0, 7.0))
    assert np.isfinite(samples).all()


def test_octaves():
    """0, 1, 2-3, 4-7, ...; an age in a neighbour's octave would be weighed by the wrong number of pairs."""
    assert recalled_bits.octaves(np.array([0, 1, 2, 3, 4, 7, 8, 63, 64])).tolist() == [
        0,
        1,
        2,
        2,
        3,
        3,
        4,
        6,
        7,
    ]


@pytest.mark.parametrize("pairs, rows", [(1, 5), (6, 48), (32, 33), (5, 48)])
def test_each_pair_is_asked_for_alike(pairs, rows):
    """Ages asked for unevenly would weigh the newest pairs, which are the easiest, more or less."""
    asked = recalled_bits.requests(pairs, rows)
    assert [request.settings["interference"] for request in asked] == list(range(pairs))
    counts = [request.rows for request in asked]
    assert max(counts) - min(counts) <= 1
    # No row twice.
    assert [request.first for request in asked] == [0, *np.cumsum(counts)[:-1]]
    assert sum(counts) == rows


@pytest.mark.parametrize("rule", ["additive", "delta"])
def test_the_reference_line_is_the_memory_evaluated_as_a_model(rule):
    """Two ways to one figure: inner products alone, and a matrix behind the scorer's interface.

    The scorer's output layer is not calibrated, so that it recalls less; it cannot recall more.
    """
    task = RecallAtDistance(pairs=8, fillers=0, queries_per_row=1, keys=32, values=32, filler_tokens=0)
    bits = measure(KeyValueMemory(task.vocab_size, task.value_ids, rule), task, rows=400)
    assert bits.reference.width == 16
    assert bits.reference.critical_load == pytest.approx(256 / (2 * np.log(32)))
    for load, reference in zip(bits.loads, bits.reference.bits[rule], strict=True):
        assert load.bits.low <= reference.high
        assert 0 < reference.value <= 5 * load.pairs + 1e-9
    assert bits.reference.bits[rule][-1].value < 5 * 32 / 2


def test_bits_of_noise_are_not_counted():
    """Where half of the pairs are noise, a perfect memory recalls half as much."""
    task = RecallAtDistance(pairs=6, fillers=0, queries_per_row=3, keys=40, values=32, noisy=0.5)
    bits = measure(Copier(task.vocab_size, task.value_ids), task)
    for load in bits.loads:
        assert load.bits.value == pytest.approx(5.0 * load.pairs, rel=1e-6)
    assert [load.pairs for load in bits.loads] == [1, 1, 2, 3, 4, 8, 16]
