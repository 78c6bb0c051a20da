"""Model against model on the same recall rows: what makes a row hard for both cancels.

Of each curve the difference in recall area, and of the principal one that in bits of the answers, both over
the points that the two were trained on. Intervals resample rows, each with its queries at all points.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from seqmodels.evaluation.answers import ANSWER_KINDS, RIGHT
from seqmodels.evaluation.comparison import ComparedRun, sweeps
from seqmodels.evaluation.recall_curve import is_linear
from seqmodels.evaluation.statistics import Estimate, mean_along, paired_difference

TABLE = "recall.parquet"


class Difference(NamedTuple):
    """What the second run has more of than the first, by the name of the figure; or why it is not known."""

    label: str
    figures: dict[str, Estimate]
    obstacle: str | None


class _Queries(NamedTuple):
    """The counted queries of a curve, summed by row and point, [rows, points] each."""

    asked: np.ndarray
    right: np.ndarray
    bits: np.ndarray


def differences(runs: Sequence[ComparedRun]) -> list[Difference]:
    """Each run but the first, compared with the first; empty where the first has no recall."""
    first, *others = runs
    if "recall" not in first.suites:
        return []
    return [_difference(first, other) for other in others]


def _difference(first: ComparedRun, other: ComparedRun) -> Difference:
    obstacle = _obstacle(first, other)
    if obstacle is not None:
        return Difference(other.label, {}, obstacle)
    figures: dict[str, Estimate] = {}
    for index, name in enumerate(sweeps([first])):
        curves = [run.suites["recall"][f"by_{name}"] for run in (first, other)]
        trained = [[point["trained"] for point in curve["points"]] for curve in curves]
        kept = np.flatnonzero(np.all(trained, axis=0))
        if len(kept) == 0:
            continue
        one, two = (_queries(run.folder / TABLE, name, curves[0]) for run in (first, other))
        at = np.array([point["at"] for point in curves[0]["points"]], np.float64)[kept]
        along = at if is_linear(curves[0]["axis"]) else np.log2(at)
        # The area is a sum over points: of each point, its share of the axis by its share of right answers.
        weights = mean_along(along, np.eye(len(kept))) * len(one.asked) / one.asked[:, kept].sum(axis=0)
        areas = ((of.right[:, kept] * weights).sum(axis=1) for of in (two, one))
        figures[f"recall area, {name}"] = paired_difference(*areas, np.ones(len(one.asked)), bound=1.0)
        if index == 0:
            bits = (of.bits[:, kept].sum(axis=1) for of in (two, one))
            figures[f"bits of the answer, {name}"] = paired_difference(*bits, one.asked[:, kept].sum(axis=1))
    return Difference(other.label, figures, None if figures else "no trained points in common")


def _obstacle(first: ComparedRun, other: ComparedRun) -> str | None:
    """Why two runs cannot be paired."""
    if "recall" not in other.suites:
        return "no recall"
    if first.suites["recall"]["rows_hash"] != other.suites["recall"]["rows_hash"]:
        return "not paired: other rows"
    for run in (first, other):
        if not (run.folder / TABLE).is_file():
            return f"not paired: {run.label} has no {TABLE}"
    return None


def _queries(file: Path, name: str, curve: dict[str, Any]) -> _Queries:
    """Reads the queries of a curve. The table has its points in order, and of each its rows in order."""
    import pyarrow.compute
    import pyarrow.parquet

    columns = ["part", "row", "query_index", "kind", "nll_bits"]
    table = pyarrow.parquet.read_table(file, columns=columns)
    table = table.filter(pyarrow.compute.equal(table["part"], name))
    row, query, bits = (table[column].to_numpy() for column in ("row", "query_index", "nll_bits"))
    kinds = table["kind"].cast(pyarrow.string())
    right = pyarrow.compute.equal(kinds, ANSWER_KINDS[RIGHT]).to_numpy(zero_copy_only=False)
    begins = (np.diff(row) < 0) | ((np.diff(row) == 0) & (np.diff(query) <= 0))
    point = np.concatenate([[0], np.cumsum(begins)])
    counted = query == 0 if curve["counted"] == "first query of a row" else query >= 0
    shape = (row.max() + 1, len(curve["points"]))

    def summed(values: np.ndarray) -> np.ndarray:
        sums = np.zeros(shape)
        np.add.at(sums, (row[counted], point[counted]), values[counted])
        return sums

    return _Queries(summed(np.ones(len(row))), summed(right), summed(bits))
