"""The map of recall: accuracy by the distance of a pair and by the load of its row, cell by cell.

A cell is a distance d and a load K. Its rows have K pairs and ask for the one whose value stands d tokens
before the query: with as few as no pairs behind it and fillers up to the query, with as many pairs as the
distance has room for, and with numbers in between, in equal parts. A row has one query that counts.
"""

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from seqmodels.data.tasks.recall_at_distance import RecallAtDistance
from seqmodels.data.tasks.task import Sweep, numbers
from seqmodels.evaluation.answers import RIGHT, Request
from seqmodels.evaluation.statistics import Estimate, wilson

FEWEST_QUERIES = 20
"""A cell with fewer is shown in grey: its interval is as wide as half the scale."""
_MIXTURE = 8


@dataclasses.dataclass(frozen=True)
class Cells:
    """`right` of `queries`, [loads, distances] each; a cell that no row can have has 0 queries.

    trained: whether training had rows of that length with so many pairs, [loads, distances]. reach: the
    distance that only fillers can make in a row of the training length, [loads]. largest_load: of training.
    """

    pairs: np.ndarray
    distances: np.ndarray
    right: np.ndarray
    queries: np.ndarray
    trained: np.ndarray
    reach: np.ndarray
    largest_load: int
    training_length: int

    @property
    def accuracy(self) -> np.ndarray:
        """[loads, distances], NaN where there are too few queries to say."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.queries >= FEWEST_QUERIES, self.right / self.queries, np.nan)

    def estimate(self, load: int, distance: int) -> Estimate:
        """Of the cell with these indices, with Wilson's interval."""
        return wilson(int(self.right[load, distance]), int(self.queries[load, distance]))

    def summary(self) -> dict:
        return {
            "largest_load_of_training": self.largest_load,
            "cells": [
                {
                    "pairs": int(self.pairs[load]),
                    "distance": int(self.distances[at]),
                    "accuracy": self.estimate(load, at)._asdict(),
                    "queries": int(self.queries[load, at]),
                    "trained": bool(self.trained[load, at]),
                }
                for load, at in zip(*np.nonzero(self.queries), strict=True)
            ],
        }


class Grid(NamedTuple):
    """The loads and the distances of the cells."""

    pairs: list[int]
    distances: list[int]


Cell = tuple[int, int]
"""The indices of a load and of a distance."""


def distances(sweeps: list[Sweep]) -> list[int]:
    """Those of the first sweep that has several, in tokens."""
    points = max(sweeps, key=lambda sweep: len(sweep.points) > 1).points
    return [int(point.at) for point in points]


def requests(task: RecallAtDistance, grid: Grid, rows: int, longest: int) -> Iterator[tuple[Cell, Request]]:
    """`rows` rows for each cell, of up to `longest` tokens; none for a cell without such rows."""
    for load, pairs in enumerate(grid.pairs):
        for at, distance in enumerate(grid.distances):
            for request in _of_cell(task, pairs, distance, rows, longest):
                yield (load, at), request


def _of_cell(task: RecallAtDistance, pairs: int, distance: int, rows: int, longest: int) -> list[Request]:
    fitting = []
    for interference in range(min(pairs - 1, (distance - 1) // 2) + 1):
        fillers = distance - 1 - 2 * interference
        settings = {"pairs": pairs, "interference": interference, "fillers": fillers}
        if (fillers == 0 or task.filler_tokens) and task.row_tokens(**settings) <= longest:
            fitting.append(settings)
    if not fitting:
        return []
    spread = np.unique(np.linspace(0, len(fitting) - 1, _MIXTURE).round().astype(int))
    edges = np.linspace(0, rows, len(spread) + 1).round().astype(int)
    return [
        Request(fitting[index], int(end - begin), int(begin))
        for index, begin, end in zip(spread, edges[:-1], edges[1:], strict=True)
        if end > begin
    ]


def measure(
    task: RecallAtDistance, grid: Grid, tables: dict[Cell, dict[str, np.ndarray]], training_length: int
) -> Cells:
    """From the table of each cell that has rows."""
    shape = len(grid.pairs), len(grid.distances)
    right, queries, trained = np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(shape, bool)
    largest = max(numbers(task.settings["pairs"]))
    rows = [task.row_tokens(pairs=pairs, interference=0, fillers=0) for pairs in grid.pairs]
    for (load, at), table in tables.items():
        first = table["query_index"] == 0
        right[load, at] = (table["kind"][first] == RIGHT).sum()
        queries[load, at] = first.sum()
        fits = rows[load] + table["fillers"].max() <= training_length
        trained[load, at] = fits and grid.pairs[load] <= largest
    return Cells(
        pairs=np.array(grid.pairs),
        distances=np.array(grid.distances),
        right=right,
        queries=queries,
        trained=trained,
        reach=training_length - np.array(rows) + 1,
        largest_load=largest,
        training_length=training_length,
    )
