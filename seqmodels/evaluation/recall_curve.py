"""Accuracy along one sweep of a task, and the two figures that sum a curve up: its area and its horizon."""

import dataclasses
from functools import cached_property

import numpy as np

from seqmodels.data.tasks.task import Sweep
from seqmodels.evaluation.answers import RIGHT
from seqmodels.evaluation.statistics import (
    Estimate,
    area_over_log2,
    around,
    horizon50,
    mean_along,
    resample_shares,
    wilson,
)


@dataclasses.dataclass(frozen=True)
class Curve:
    """Accuracy at each point of a sweep: `right_in_row` of `asked_in_row` queries, [rows, points] each.

    trained: whether training had rows of that length and with such settings, [points]. values: how many
    there are to choose from.
    """

    sweep: Sweep
    right_in_row: np.ndarray
    asked_in_row: np.ndarray
    trained: np.ndarray
    values: int

    @property
    def at(self) -> np.ndarray:
        """Where the points stand on the axis of the sweep, [points]."""
        return np.array([point.at for point in self.sweep.points])

    @property
    def right(self) -> np.ndarray:
        return self.right_in_row.sum(axis=0)

    @property
    def queries(self) -> np.ndarray:
        return self.asked_in_row.sum(axis=0)

    @property
    def accuracy(self) -> list[Estimate]:
        """Wilson's interval where a row has one query; otherwise one that resamples rows."""
        counts = zip(self.right.tolist(), self.queries.tolist(), strict=True)
        if self.sweep.first_query:
            return [wilson(right, queries) for right, queries in counts]
        return [
            around(right / queries, samples) if queries else wilson(0, 0)
            for (right, queries), samples in zip(counts, self._samples.T, strict=True)
        ]

    @property
    def chance_of_value(self) -> float:
        """Guessing any value of the alphabet."""
        return 1 / self.values

    @property
    def chance_of_row(self) -> np.ndarray:
        """Guessing any pair of the row, [points]."""
        return 1 / np.array([point.pairs for point in self.sweep.points])

    @property
    def area(self) -> Estimate:
        """The mean accuracy over log2 of the axis, of the points that training had; NaN where it had none.

        Over the axis itself where that counts per cent.
        """
        kept = np.flatnonzero(self.trained)
        if len(kept) == 0:
            return Estimate(float("nan"), float("nan"), float("nan"))
        mean = mean_along if is_linear(self.sweep.axis) else area_over_log2
        return around(
            float(mean(self.at[kept], self._shares[kept])), mean(self.at[kept], self._samples[:, kept])
        )

    @property
    def horizon50(self) -> Estimate:
        """Where accuracy falls through 1/2: infinite where it ends above, 0 where it never comes there."""
        samples = np.array([horizon50(self.at, row) for row in self._samples])
        return around(horizon50(self.at, self._shares), samples)

    @property
    def _shares(self) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            return self.right / self.queries

    @cached_property
    def _samples(self) -> np.ndarray:
        """[resamples, points]: rows are resampled, each with its queries at all points."""
        return resample_shares(self.right_in_row, self.asked_in_row)

    def summary(self) -> dict:
        return {
            "axis": self.sweep.axis,
            "counted": "first query of a row" if self.sweep.first_query else "all queries",
            "area": self.area._asdict(),
            "horizon50": self.horizon50._asdict(),
            "points": [
                {
                    "at": point.at,
                    **point.settings,
                    "accuracy": accuracy._asdict(),
                    "queries": int(queries),
                    "chance_of_value": self.chance_of_value,
                    "chance_of_row": 1 / point.pairs,
                    "trained": bool(trained),
                }
                for point, accuracy, queries, trained in zip(
                    self.sweep.points, self.accuracy, self.queries, self.trained, strict=True
                )
            ],
        }


def is_linear(axis: str) -> bool:
    """Whether an axis is to be seen as it is: shares are, while numbers of tokens are seen by octaves."""
    return axis.endswith("(%)")


def curve_of(
    sweep: Sweep, tables: list[dict[str, np.ndarray]], rows: int, trained: np.ndarray, values: int
) -> Curve:
    """The curve of a sweep from the table of each point, of rows 0 to `rows` - 1."""
    right, asked = (np.zeros((rows, len(sweep.points)), np.int64) for _ in range(2))
    for index, table in enumerate(tables):
        counted = table["query_index"] == 0 if sweep.first_query else table["query_index"] >= 0
        np.add.at(asked[:, index], table["row"][counted], 1)
        np.add.at(right[:, index], table["row"][counted], table["kind"][counted] == RIGHT)
    return Curve(sweep, right, asked, trained, values)
