"""The map of recall: every cell has its own distance and load, and counts what it should."""

import numpy as np
import pytest

from seqmodels.data.tasks.recall_at_distance import RecallAtDistance
from seqmodels.evaluation import recall, recall_cells
from seqmodels.evaluation.recall_cells import Grid
from tests.evaluation.oracles import Copier

TASK = RecallAtDistance(pairs=(2, 4), fillers=(0, 3), queries_per_row=3, keys=40, values=32, filler_tokens=8)


def measure(scorer, task=TASK, **settings):
    sizes = {"training_length": 24, "longest": 72, "batch_size": 16}
    return recall.measure(scorer, task, **sizes, rows=48, cell_rows=24, **settings)


def test_rows_of_a_cell():
    """Another distance or load in a cell would blur the map; too few mixtures would tie distance to load."""
    grid = Grid([1, 4, 32], [1, 2, 8, 64])
    asked = list(recall_cells.requests(TASK, grid, 24, 72))
    for (load, at), request in asked:
        known = TASK.rows("test", request.first, request.rows, **request.settings).metadata
        first = known["query_index"] == 0
        np.testing.assert_array_equal(known["distance"][first], grid.distances[at])
        np.testing.assert_array_equal(known["pairs"], grid.pairs[load])
    of = {cell: [request for found, request in asked if found == cell] for cell, _ in asked}
    # 32 pairs and 63 tokens between do not fit into 72 tokens, unless 28 or more of them are pairs.
    assert set(of) == {(load, at) for load in range(3) for at in range(4)}
    assert [r.settings["interference"] for r in of[1, 2]] == [0, 1, 2, 3]
    assert min(r.settings["interference"] for r in of[2, 3]) >= 29
    for requests in of.values():
        assert sum(request.rows for request in requests) == 24


def test_copier_flips_between_cells():
    """A window of 8 tokens is right in all columns up to 8 and at no load beyond."""
    cells = measure(Copier(TASK.vocab_size, TASK.value_ids, window=8)).cells
    np.testing.assert_array_equal(cells.distances, [1, 2, 4, 8, 16, 32])
    np.testing.assert_array_equal(cells.pairs, [1, 2, 4, 8, 16, 32])
    measured = cells.queries > 0
    np.testing.assert_array_equal(cells.queries[measured], 24)
    near = cells.distances <= 8
    np.testing.assert_array_equal(cells.accuracy[:, near][measured[:, near]], 1.0)
    assert cells.accuracy[:, ~near][measured[:, ~near]].max() < 0.3
    assert cells.estimate(0, 0).low < 1.0
    summary = cells.summary()["cells"]
    assert len(summary) == measured.sum()
    assert summary[0] | {"accuracy": None} == {
        "pairs": 1,
        "distance": 1,
        "accuracy": None,
        "queries": 24,
        "trained": True,
    }


def test_what_training_had():
    """The marks of the map: rows of 24 tokens with 4 pairs and 3 queries have 13 fillers, so 14 tokens."""
    cells = measure(Copier(TASK.vocab_size, TASK.value_ids)).cells
    assert cells.largest_load == 4
    np.testing.assert_array_equal(cells.reach, [24 - 2 * k - 3 + 1 for k in cells.pairs])
    expected = (cells.pairs[:, None] <= 4) & (cells.distances[None] <= cells.reach[:, None])
    np.testing.assert_array_equal(cells.trained, expected & (cells.queries > 0))


def test_without_fillers_distance_is_interference():
    """A task without fillers has no column at even distances, and no row for few pairs far away."""
    task = RecallAtDistance(pairs=4, fillers=0, queries_per_row=3, keys=40, values=32, filler_tokens=0)
    cells = measure(Copier(task.vocab_size, task.value_ids), task).cells
    np.testing.assert_array_equal(cells.distances % 2, 1)
    measured = cells.queries > 0
    np.testing.assert_array_equal(measured, 2 * cells.pairs[:, None] > cells.distances[None])
    assert np.isnan(cells.accuracy[~measured]).all()


def test_cells_with_few_queries_are_not_shown():
    """Three right answers of three look like certainty."""
    cells = recall.measure(
        Copier(TASK.vocab_size, TASK.value_ids),
        TASK,
        training_length=24,
        longest=72,
        batch_size=16,
        rows=48,
        cell_rows=3,
    ).cells
    assert np.isnan(cells.accuracy).all()
    assert cells.summary()["cells"][0]["queries"] == 3


@pytest.mark.parametrize(
    "switch", [{"rebind": True}, {"noisy": 0.5}, {"read_twice": True}, {"query_first": True}]
)
def test_switches_keep_the_distances(switch):
    """What a switch adds to a row must not move the pair that a cell asks for."""
    task = RecallAtDistance(
        pairs=4, fillers=(0, 3), queries_per_row=3, keys=40, values=32, filler_tokens=8, **switch
    )
    grid = Grid([1, 4], [1, 2, 8])
    for (_, at), request in recall_cells.requests(task, grid, 8, 96):
        known = task.rows("test", request.first, request.rows, **request.settings).metadata
        np.testing.assert_array_equal(known["distance"][:, 0], grid.distances[at])
