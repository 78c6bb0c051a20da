"""What is printed and drawn of recall: of any task, and of measurements at the ends of their scales."""

import io
import json
import struct
from contextlib import redirect_stdout

import numpy as np
import pytest

from seqmodels.data.tasks.recall_at_distance import RecallAtDistance
from seqmodels.data.tasks.task import Point, Sweep
from seqmodels.evaluation import artifacts, recall, report
from seqmodels.evaluation.json_numbers import encoded
from tests.evaluation.oracles import Copier, FirstBinding, uniform

SIZES = {"queries_per_row": 3, "keys": 40, "values": 32, "filler_tokens": 8}


class OneSweep(RecallAtDistance):
    """A task with one curve of one point, along another axis, all of whose queries count."""

    def sweeps(self, longest):
        points = [Point(4, {"pairs": 2, "fillers": 0}, 2, True)]
        return [Sweep("length", "sequence length (tokens)", points, first_query=False)]


TASKS = {
    "house": RecallAtDistance(pairs=(2, 4), fillers=(0, 3), **SIZES),
    "no fillers": RecallAtDistance(pairs=4, fillers=0, **SIZES | {"filler_tokens": 0}),
    "one pair": RecallAtDistance(pairs=1, fillers=0, **SIZES | {"keys": 1}),
    "rebind": RecallAtDistance(pairs=4, fillers=0, rebind=0.5, **SIZES),
    "another axis": OneSweep(pairs=4, fillers=0, **SIZES),
}
SCORERS = {
    "perfect": lambda task: Copier(task.vocab_size, task.value_ids),
    "window": lambda task: Copier(task.vocab_size, task.value_ids, window=9),
    "stale": lambda task: FirstBinding(task.vocab_size, task.value_ids),
    "uniform": lambda task: uniform(task.vocab_size),
}


@pytest.fixture(scope="module", params=[("house", "perfect"), ("house", "window"), ("house", "uniform")])
def result(request):
    name, scorer = request.param
    return measure(name, scorer)


def measure(name, scorer):
    task = TASKS[name]
    cell_rows = 0 if name == "another axis" else 20
    sizes = {"training_length": 20, "longest": 64, "batch_size": 16, "rows": 24}
    return recall.measure(SCORERS[scorer](task), task, **sizes, cell_rows=cell_rows)


def shown(result):
    with redirect_stdout(io.StringIO()) as printed:
        report.show("a run", report.rows({"recall": result}, None))
    return printed.getvalue().splitlines()


def check(result):
    lines = shown(result)
    assert max(map(len, lines)) <= report.WIDTH
    # A figure and its interval on one line each: a row that wraps is two lines long.
    assert len(lines) == len(report.rows({"recall": result}, None)) + 2
    for picture in artifacts.pictures({"recall": result}, "a run").values():
        width, height = struct.unpack(">II", picture[16:24])
        assert width > 400
        assert height > 300
    json.dumps(encoded(result.summary()), allow_nan=False)
    assert all(np.isfinite(value) for value in result.scalars().values())
    return lines


def test_results_at_both_ends_of_their_scales(result):
    """All right, part right, and none: without a warning, a row that wraps, or a number that JSON has not."""
    check(result)


@pytest.mark.parametrize(
    "name, scorer",
    [("no fillers", "window"), ("one pair", "perfect"), ("rebind", "stale"), ("another axis", "window")],
)
def test_tasks_of_other_shapes(name, scorer):
    """A curve of one point, a map with holes or of one line, a kind of answer that others do not have."""
    result = measure(name, scorer)
    lines = check(result)
    if name == "another axis":
        assert any(line.startswith("  length 4 ") for line in lines)
        assert any("tokens until accuracy falls through 1/2" in line for line in lines)
        assert set(artifacts.pictures({"recall": result}, "a run")) == {"recall", "recall_answers"}
    if name == "rebind":
        assert any(line.startswith("stale answers") for line in lines)
