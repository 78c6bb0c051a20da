"""Recall by distance: oracles of known memory get the figures they must, at exactly the right distances."""

import numpy as np
import pytest

from seqmodels.data.tasks.recall_at_distance import RecallAtDistance
from seqmodels.errors import InputError
from seqmodels.evaluation import recall
from tests.evaluation.oracles import Copier, KeyValueMemory, uniform

TASK = RecallAtDistance(pairs=4, fillers=(0, 3, 7), queries_per_row=3, keys=40, values=32, filler_tokens=8)


def measure(scorer, batch_size=16, rows=48, **settings):
    return recall.measure(
        scorer, TASK, training_length=24, longest=96, batch_size=batch_size, rows=rows, **settings
    )


def test_perfect_memory_is_right_at_every_distance():
    """Anything below 1 means that the evaluation reads the wrong position, or expects the wrong token."""
    result = measure(Copier(TASK.vocab_size, TASK.value_ids))
    for curve in (result.delay, result.interference):
        np.testing.assert_array_equal(curve.right, curve.queries)
        assert curve.area.value == 1.0
        assert curve.horizon50.value == float("inf")
    assert (result.table["kind"] == 0).all()
    assert (result.table["rank"] == 1).all()


@pytest.mark.parametrize("window", [4, 8, 15, 16, 17])
def test_copier_flips_exactly_behind_its_window(window):
    """A distance off by one, in the task or here, moves the flip by one."""
    result = measure(Copier(TASK.vocab_size, TASK.value_ids, window=window))
    for curve in (result.delay, result.interference):
        assert len(curve.sweep.points) >= 5
        for distance, accuracy in zip(curve.distance, curve.accuracy, strict=True):
            if distance <= window:
                assert accuracy.value == 1.0
            else:
                assert accuracy.low <= 1 / 32 <= accuracy.high
    right = result.table["kind"] == 0
    np.testing.assert_array_equal(right[result.table["distance"] <= window], True)


@pytest.mark.parametrize(
    "rule, accuracies",
    [("additive", (0.907, 0.813, 0.639, 0.428, 0.252)), ("delta", (0.912, 0.799, 0.575, 0.325, 0.172))],
)
def test_matrix_memories_of_known_capacity(rule, accuracies):
    """A memory of 16 x 16 numbers, simulated elsewhere: an evaluator that is off shifts the whole curve."""
    task = RecallAtDistance(pairs=64, fillers=0, queries_per_row=1, keys=64, values=64, filler_tokens=0)
    for pairs, expected in zip((4, 8, 16, 32, 64), accuracies, strict=True):
        right, count, size = 0, 2400, 400
        memory = KeyValueMemory(task.vocab_size, task.value_ids, rule, seed=pairs)
        for first in range(0, count, size):
            made = task.rows("test", first, size, pairs=pairs)
            batch, known = made.batch, made.metadata
            logits = memory.logits(batch["tokens"], batch["segment_ids"], batch["scored"])
            judged = recall._judge(logits, known["answer"], known["values_in_row"], task.value_ids)
            right += (judged["kind"] == 0).sum()
        # 4 standard errors of these rows, and half a unit of the last digit of the reference.
        error = 4 * np.sqrt(expected * (1 - expected) / count) + 5e-4
        assert abs(right / count - expected) < error, (rule, pairs)


def test_distances_of_the_curves():
    """The delay curve has no pair after the target and doubling distances; the other one has no filler."""
    result = measure(uniform(TASK.vocab_size), rows=2, batch_size=2)
    np.testing.assert_array_equal(result.delay.distance, [1, 2, 4, 8, 16, 32, 64])
    delay, interference = ([p.settings for p in c.sweep.points] for c in (result.delay, result.interference))
    assert {s["interference"] for s in delay} == {0}
    assert [s["interference"] for s in interference] == [0, 1, 2, 3, 4, 8, 16, 32]
    assert [s["pairs"] for s in interference] == [4, 4, 4, 4, 5, 9, 17, 33]
    assert {s["fillers"] for s in interference} == {0}
    np.testing.assert_array_equal(result.delay.trained, [True] * 4 + [False] * 3)


def test_uniform_is_at_chance():
    """No information: log2 of the vocabulary in bits, and no more right than by guessing."""
    result = measure(uniform(TASK.vocab_size))
    np.testing.assert_allclose(result.table["nll_bits"], np.log2(TASK.vocab_size), rtol=1e-6)
    assert result.delay.area.value < 0.1


def test_two_runs_and_other_batches_agree():
    """A result that depends on the batch, or on when it is made, cannot be compared."""
    scorer = Copier(TASK.vocab_size, TASK.value_ids, window=10)
    one, two = measure(scorer, batch_size=16), measure(scorer, batch_size=7)
    assert one.summary() == two.summary() == measure(scorer, batch_size=16).summary()
    for name in one.table:
        np.testing.assert_array_equal(one.table[name], two.table[name])


def test_kinds_of_answers():
    """A binding error must not count as a wrong value, nor a repeated value twice in the rank."""
    logits = np.zeros((1, 4, 10), np.float32)
    for query, predicted in enumerate((7, 8, 9, 2)):
        logits[0, query, predicted] = 1.0
    answer = np.full((1, 4), 7)
    judged = recall._judge(logits, answer, np.array([[8, 7, 8, -1]]), range(6, 10))
    np.testing.assert_array_equal(judged["kind"], [[0, 1, 2, 3]])
    np.testing.assert_array_equal(judged["rank"], [[1, 2, 1, 1]])


def test_rows_that_do_not_fit_are_refused():
    """A row cut short would lose its query, or its answer."""
    with pytest.raises(InputError, match="shortest row of the task takes 11 tokens"):
        recall.measure(uniform(TASK.vocab_size), TASK, training_length=8, longest=8, batch_size=2, rows=2)
