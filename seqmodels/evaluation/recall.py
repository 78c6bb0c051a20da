"""Recall at a distance: accuracy against delay and against interference, with its chance and its interval.

Two curves of a task that writes values under keys. By delay: nothing but fillers stands between a pair and
its query (I = 0). By interference: nothing but other pairs does (F = 0). A row's first query alone enters
them, so that the trials of a point are independent; every query is kept in the table.
"""

import dataclasses
import hashlib
import json

import numpy as np

from seqmodels.data.tasks.task import Point, Sweep, Task
from seqmodels.evaluation.scorer import in_flight, nll_of_logits, shared_width
from seqmodels.evaluation.statistics import (
    RESAMPLES,
    Estimate,
    area_over_log2,
    horizon50,
    percentile_interval,
    wilson,
)

_LN2 = float(np.log(2.0))
ANSWER_KINDS = ("right", "another value of the row", "a value not in the row", "no value")


@dataclasses.dataclass(frozen=True)
class Curve:
    """Accuracy at each point of a sweep: `right` of `queries` [points].

    trained: whether training had rows of that length and with such settings, [points].
    """

    sweep: Sweep
    right: np.ndarray
    queries: np.ndarray
    trained: np.ndarray
    values: int

    @property
    def distance(self) -> np.ndarray:
        return np.array([point.at for point in self.sweep.points])

    @property
    def accuracy(self) -> list[Estimate]:
        return [wilson(int(k), int(n)) for k, n in zip(self.right, self.queries, strict=True)]

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
        """The mean accuracy over log2 distance, of the points that training had."""
        kept = np.flatnonzero(self.trained)
        samples = area_over_log2(self.distance[kept], self._resampled()[:, kept])
        value = area_over_log2(self.distance[kept], (self.right / self.queries)[kept])
        return Estimate(float(value), *map(float, percentile_interval(samples)))

    @property
    def horizon50(self) -> Estimate:
        """Where accuracy falls through 1/2: infinite where it never does, 0 where it begins below."""
        samples = np.sort([horizon50(self.distance, row) for row in self._resampled()])
        low, high = samples[int(0.025 * RESAMPLES)], samples[int(0.975 * RESAMPLES)]
        return Estimate(horizon50(self.distance, self.right / self.queries), float(low), float(high))

    def _resampled(self) -> np.ndarray:
        """[RESAMPLES, points]: accuracies of rows drawn with replacement, one query each."""
        generator = np.random.Generator(np.random.Philox(0))
        drawn = generator.binomial(self.queries, self.right / self.queries, (RESAMPLES, len(self.right)))
        return drawn / self.queries

    def summary(self) -> dict:
        return {
            "area": self.area._asdict(),
            "horizon50": self.horizon50._asdict(),
            "points": [
                {
                    "distance": point.at,
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


@dataclasses.dataclass(frozen=True)
class Recall:
    """Both curves, the table of all queries (columns of equal length), and the hash of the rows."""

    delay: Curve
    interference: Curve
    table: dict[str, np.ndarray]
    split: str
    rows_hash: str
    training_length: int

    def scalars(self) -> dict[str, float]:
        """By tag; a horizon beyond what was measured is given as the longest distance."""
        return {
            "eval/recall_area": self.delay.area.value,
            "eval/recall_area_interference": self.interference.area.value,
            "eval/recall_horizon50": min(self.delay.horizon50.value, float(self.delay.distance[-1])),
        }

    def summary(self) -> dict:
        return {
            "split": self.split,
            "rows_hash": self.rows_hash,
            "training_length": self.training_length,
            "by_delay": self.delay.summary(),
            "by_interference": self.interference.summary(),
            "answers": {kind: int((self.table["kind"] == i).sum()) for i, kind in enumerate(ANSWER_KINDS)},
        }


def measure(
    scorer,
    task: Task,
    *,
    training_length: int,
    longest: int,
    batch_size: int,
    rows: int = 512,
    split: str = "test",
) -> Recall:
    """Both curves of a task, in rows of up to `longest` tokens, `rows` of them a point."""
    curves, tables, hashes = [], [], []
    for sweep in task.sweeps(longest):
        right = np.zeros(len(sweep.points), np.int64)
        for index, point in enumerate(sweep.points):
            width = shared_width(task.row_tokens(**point.settings), training_length, longest)
            table = _answers(scorer, task, point, split, rows, batch_size, width)
            first = table["query_index"] == 0
            right[index] = (table["kind"][first] == 0).sum()
            tables.append({"curve": np.full(len(first), sweep.name), **table})
            hashes.append(task.rows_hash(split, 0, rows, **point.settings))
        fits = [task.row_tokens(**point.settings) <= training_length for point in sweep.points]
        trained = np.array(fits) & [point.familiar for point in sweep.points]
        curves.append(Curve(sweep, right, np.full(len(sweep.points), rows), trained, len(task.value_ids)))
    joined = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
    return Recall(*curves, joined, split, _digest(hashes), training_length)


def _answers(scorer, task: Task, point: Point, split: str, rows: int, batch_size: int, width: int):
    """The table of one point: a line a query, in order of rows."""

    def batches():
        for first in range(0, rows, batch_size):
            # The last batch is filled up with rows that are then dropped: one shape, one compilation.
            made = task.rows(split, first, batch_size, row_length=width, **point.settings)
            batch = made.batch
            count = min(batch_size, rows - first)
            logits = scorer.logits(batch["tokens"], batch["segment_ids"], batch["scored"])
            yield logits, {name: values[:count] for name, values in made.metadata.items()}

    columns = []
    for logits, queries in in_flight(batches()):
        in_row = queries.pop("values_in_row")
        answered = _judge(logits[: len(in_row)], queries["answer"], in_row, task.value_ids)
        columns.append({name: values.ravel() for name, values in {**queries, **answered}.items()})
    return {name: np.concatenate([part[name] for part in columns]) for name in columns[0]}


def _judge(
    logits: np.ndarray, answer: np.ndarray, in_row: np.ndarray, value_ids: range
) -> dict[str, np.ndarray]:
    """Of each query [B, n]: the most likely token, its kind, the answer's NLL in bits, and its rank.

    The rank is among the row's values, 1 the best; a value written twice counts once.
    """
    predicted = logits.argmax(axis=-1)
    repeated = (in_row[:, :, None] == in_row[:, None, :]) & np.tri(in_row.shape[1], k=-1, dtype=bool)
    distinct = (in_row >= 0) & ~repeated.any(axis=-1)
    own = np.take_along_axis(logits, answer[..., None], axis=-1)
    written = np.broadcast_to(np.maximum(in_row, 0)[:, None, :], (*answer.shape, in_row.shape[1]))
    others = np.take_along_axis(logits, written, axis=-1)
    rank = 1 + ((others > own) & distinct[:, None, :]).sum(axis=-1)
    is_value = (predicted >= value_ids.start) & (predicted < value_ids.stop)
    is_written = (predicted[..., None] == in_row[:, None, :]).any(axis=-1)
    kind = np.select([predicted == answer, is_written, is_value], [0, 1, 2], 3)
    return {
        "predicted": predicted,
        "kind": kind,
        "nll_bits": nll_of_logits(logits, answer) / np.float32(_LN2),
        "rank": rank,
    }


def _digest(hashes: list[str]) -> str:
    """One hash over those of all points."""
    return hashlib.blake2b(json.dumps(hashes).encode(), digest_size=16).hexdigest()
