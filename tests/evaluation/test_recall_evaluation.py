"""Recall by distance: oracles of known memory get the figures they must, at exactly the right distances."""

import json

import numpy as np
import pytest

from seqmodels.data.tasks.curriculum import Curriculum
from seqmodels.data.tasks.recall_at_distance import RecallAtDistance
from seqmodels.data.tasks.task import Point, Sweep
from seqmodels.errors import InputError
from seqmodels.evaluation import recall
from seqmodels.evaluation.answers import RIGHT, STALE, ask
from seqmodels.evaluation.recall_curve import Curve, curve_of
from seqmodels.evaluation.recalled_bits import requests
from tests.evaluation.oracles import Copier, FirstBinding, KeyValueMemory, uniform

SIZES = {"queries_per_row": 3, "keys": 40, "values": 32, "filler_tokens": 8}
TASK = RecallAtDistance(pairs=4, fillers=(0, 3, 7), **SIZES)


def measure(scorer, task=TASK, batch_size=16, rows=48, **settings):
    return recall.measure(
        scorer, task, training_length=24, longest=96, batch_size=batch_size, rows=rows, **settings
    )


def test_perfect_memory_is_right_at_every_distance():
    """Anything below 1 means that the evaluation reads the wrong position, or expects the wrong token."""
    result = measure(Copier(TASK.vocab_size, TASK.value_ids), cell_rows=20)
    assert list(result.curves) == ["delay", "interference"]
    for curve in result.curves.values():
        np.testing.assert_array_equal(curve.right, curve.queries)
        assert curve.area.value == 1.0
        assert curve.horizon50.value == float("inf")
    assert set(result.table["part"]) == {"delay", "interference", "map", "all pairs"}
    assert (result.table["kind"] == RIGHT).all()
    assert (result.table["rank"] == 1).all()


def test_all_right_is_not_certainty():
    """48 rows without an error leave an error rate of some percent possible: no interval from 1 to 1."""
    area = measure(Copier(TASK.vocab_size, TASK.value_ids)).curves["delay"].area
    assert 0.93 < area.low < 0.96
    assert (area.value, area.high) == (1.0, 1.0)


@pytest.mark.parametrize("window", [4, 8, 15, 16, 17])
def test_copier_flips_exactly_behind_its_window(window):
    """A distance off by one, in the task or here, moves the flip by one."""
    result = measure(Copier(TASK.vocab_size, TASK.value_ids, window=window), cell_rows=20)
    for curve in result.curves.values():
        assert len(curve.sweep.points) >= 5
        for distance, accuracy in zip(curve.at, curve.accuracy, strict=True):
            if distance <= window:
                assert accuracy.value == 1.0
            else:
                assert accuracy.low <= 1 / 32 <= accuracy.high
    near, right = result.table["distance"] <= window, result.table["kind"] == RIGHT
    np.testing.assert_array_equal(right[near], True)
    assert right[~near].mean() < 0.1


@pytest.mark.parametrize(
    "rule, accuracies",
    [("additive", (0.907, 0.813, 0.639, 0.428, 0.252)), ("delta", (0.912, 0.799, 0.575, 0.325, 0.172))],
)
def test_matrix_memories_of_known_capacity(rule, accuracies):
    """A memory of 16 x 16 numbers, simulated elsewhere: an evaluator that is off shifts the whole curve."""
    task = RecallAtDistance(pairs=64, fillers=0, queries_per_row=1, keys=64, values=64, filler_tokens=0)
    memory, rows = KeyValueMemory(task.vocab_size, task.value_ids, rule), 2400
    sizes = {"split": "test", "batch_size": 400, "training_length": 160, "longest": 160}
    for pairs, expected in zip((4, 8, 16, 32, 64), accuracies, strict=True):
        tables = ask(memory, task, requests(pairs, rows), **sizes)
        right = np.concatenate([table["kind"] == RIGHT for table in tables])
        assert len(right) == rows
        # 4 standard errors of these rows, and half a unit of the last digit of the reference.
        error = 4 * np.sqrt(expected * (1 - expected) / rows) + 5e-4
        assert abs(right.mean() - expected) < error, pairs


def test_distances_of_the_curves():
    """The delay curve has no pair after the target and doubling distances; the other one has no filler."""
    result = measure(uniform(TASK.vocab_size), rows=2, batch_size=2)
    np.testing.assert_array_equal(result.curves["delay"].at, [1, 2, 4, 8, 16, 32, 64])
    delay, interference = ([p.settings for p in c.sweep.points] for c in result.curves.values())
    assert {s["interference"] for s in delay} == {0}
    assert [s["interference"] for s in interference] == [0, 1, 2, 3, 4, 8, 16, 32]
    assert [s["pairs"] for s in interference] == [4, 4, 4, 4, 5, 9, 17, 33]
    assert {s["fillers"] for s in interference} == {0}
    np.testing.assert_array_equal(result.curves["delay"].trained, [True] * 4 + [False] * 3)


def test_uniform_is_at_chance():
    """No information: log2 of the vocabulary in bits, no more right than by guessing, no recalled bits."""
    result = measure(uniform(TASK.vocab_size), cell_rows=20)
    np.testing.assert_allclose(result.table["nll_bits"], np.log2(TASK.vocab_size), rtol=1e-6)
    assert result.curves["delay"].area.value < 0.1
    assert result.bits.capacity == (0.0, 0.0, 0.0)


def test_two_runs_and_other_batches_agree():
    """A result that depends on the batch, or on when it is made, cannot be compared."""
    scorer = Copier(TASK.vocab_size, TASK.value_ids, window=10)
    one, two = (measure(scorer, batch_size=size, cell_rows=20) for size in (16, 7))
    again = measure(scorer, batch_size=16, cell_rows=20)
    assert json.dumps(one.summary()) == json.dumps(two.summary()) == json.dumps(again.summary())
    for name in one.table:
        np.testing.assert_array_equal(one.table[name], two.table[name])


@pytest.mark.parametrize("rebind", [True, 0.5])
def test_last_binding_counts(rebind):
    """Where keys are written again, the last value is right, and the first one is called stale."""
    task = RecallAtDistance(pairs=4, fillers=(0, 3, 7), rebind=rebind, **SIZES)
    result = measure(Copier(task.vocab_size, task.value_ids), task, cell_rows=20)
    assert (result.table["kind"] == RIGHT).all()
    for curve in result.curves.values():
        assert curve.area.value == 1.0
    assert result.kinds.stale.value == 0.0 < result.kinds.stale.high

    first = measure(FirstBinding(task.vocab_size, task.value_ids), task, cell_rows=20)
    assert first.kinds.stale.value == 1.0
    rebound = first.table["stale_answer"] >= 0
    np.testing.assert_array_equal(first.table["kind"], np.where(rebound, STALE, RIGHT))
    assert first.curves["delay"].area.value == 0.0  # the pair of the first query is among those rebound
    assert first.scalars()["eval/recall_stale_answers"] == 1.0


def test_where_no_key_is_written_again_nothing_is_stale():
    """A rate of 0 in 0 would look like a good result."""
    result = measure(uniform(TASK.vocab_size))
    assert result.kinds.stale is None
    assert "stale" not in result.summary()["answers"]
    assert "eval/recall_stale_answers" not in result.scalars()


def test_rows_that_do_not_fit_are_refused():
    """A row cut short would lose its query, or its answer."""
    with pytest.raises(InputError, match="shortest row of the task takes 11 tokens"):
        recall.measure(uniform(TASK.vocab_size), TASK, training_length=8, longest=8, batch_size=2, rows=2)


class OneSweep(RecallAtDistance):
    """A task with one curve along another axis, all of whose queries count."""

    def sweeps(self, longest):
        points = [Point(2 * pairs, {"pairs": pairs, "fillers": 0}, pairs, pairs <= 4) for pairs in (2, 4, 8)]
        return [Sweep("length", "sequence length (tokens)", points, first_query=False)]


def test_any_sweep_of_a_task_is_a_curve():
    """Tags and keys follow the sweep's name, and every query counts where the sweep says so."""
    task = OneSweep(pairs=4, fillers=0, **SIZES)
    result = measure(Copier(task.vocab_size, task.value_ids, window=6), task)
    (curve,) = result.curves.values()
    np.testing.assert_array_equal(curve.queries, [48 * 3] * 3)
    np.testing.assert_array_equal(curve.right, [(t["kind"] == RIGHT).sum() for t in _points(result, 3)])
    assert {"eval/recall_area", "eval/recall_horizon50"} == set(result.scalars()) - {
        "eval/recall_capacity_bits"
    }
    summary = result.summary()["by_length"]
    assert summary["axis"] == "sequence length (tokens)"
    assert [point["at"] for point in summary["points"]] == [4, 8, 16]


def _points(result, count):
    lines = np.array_split(np.arange(len(result.table["kind"])), count)
    return [{name: column[part] for name, column in result.table.items()} for part in lines]


def test_a_curriculum_is_measured_as_its_last_task():
    """Its first stages are no longer asked for; the map and the bits are those of the house task."""
    stage = RecallAtDistance(pairs=1, fillers=0, **SIZES)
    result = measure(
        Copier(TASK.vocab_size, TASK.value_ids), Curriculum(tasks=(stage, TASK), rows=8), cell_rows=20
    )
    assert result.cells.largest_load == 4
    alone = measure(Copier(TASK.vocab_size, TASK.value_ids), cell_rows=20)
    assert result.rows_hash == alone.rows_hash


def test_intervals_of_all_queries_resample_rows():
    """Rows that are all right or all wrong say as much as one query each, not as many as they have."""
    points = [Point(1, {}, 4, True)]
    rows, queries = 100, 8
    table = {
        "query_index": np.tile(np.arange(queries), rows),
        "row": np.repeat(np.arange(rows), queries),
        "kind": np.repeat(np.arange(rows) % 2, queries),
    }
    curves = {
        first: curve_of(Sweep("x", "x", points, first), [table], rows, np.array([True]), 8)
        for first in (True, False)
    }
    (one,), (all_of_them,) = curves[True].accuracy, curves[False].accuracy
    assert one.value == all_of_them.value == 0.5
    assert all_of_them.high - all_of_them.low == pytest.approx(one.high - one.low, rel=0.1)


def test_a_curve_that_training_had_no_point_of_has_no_area():
    """The mean of nothing; as a scalar it would be a hole in the picture of the run."""
    points = [Point(at, {}, 4, False) for at in (1, 2)]
    counts = np.ones((5, 2), np.int64)
    curve = Curve(Sweep("x", "x", points), counts, counts, np.zeros(2, bool), 8)
    assert np.isnan(curve.area.value)
