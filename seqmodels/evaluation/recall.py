"""Recall at a distance: accuracy against delay and against interference, with its chance and its interval.

Two curves of a task that writes values under keys. By delay: nothing but fillers stands between a pair and
its query (I = 0). By interference: nothing but other pairs does (F = 0). A row's first query alone enters
them, so that the trials of a point are independent; every query is kept in the table.
"""

import dataclasses
import hashlib
import json
from typing import NamedTuple

import numpy as np

from seqmodels.errors import InputError
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


class Setting(NamedTuple):
    """One point of a curve: I pairs after the target, F fillers, K pairs in the row."""

    interference: int
    fillers: int
    pairs: int

    @property
    def distance(self) -> int:
        """Position of the first query less that of the target's value."""
        return 2 * self.interference + self.fillers + 1


@dataclasses.dataclass(frozen=True)
class Curve:
    """Accuracy at each of `settings`, in order of distance: `right` of `queries` [points].

    trained: whether training had rows of that length and that many pairs, [points].
    """

    settings: list[Setting]
    right: np.ndarray
    queries: np.ndarray
    trained: np.ndarray
    values: int

    @property
    def distance(self) -> np.ndarray:
        return np.array([setting.distance for setting in self.settings])

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
        return 1 / np.array([setting.pairs for setting in self.settings])

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
                    "distance": setting.distance,
                    **setting._asdict(),
                    "accuracy": accuracy._asdict(),
                    "queries": int(queries),
                    "chance_of_value": self.chance_of_value,
                    "chance_of_row": 1 / setting.pairs,
                    "trained": bool(trained),
                }
                for setting, accuracy, queries, trained in zip(
                    self.settings, self.accuracy, self.queries, self.trained, strict=True
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
    task,
    *,
    training_length: int,
    longest: int,
    batch_size: int,
    rows: int = 512,
    split: str = "test",
) -> Recall:
    """Both curves of a task, in rows of up to `longest` tokens, `rows` of them a point."""
    curves, tables, hashes = [], [], {}
    for name, settings in (("delay", delays(task, longest)), ("interference", interferences(task, longest))):
        right = np.zeros(len(settings), np.int64)
        for point, setting in enumerate(settings):
            width = shared_width(task.row_tokens(setting.pairs, setting.fillers), training_length, longest)
            table = _answers(scorer, task, setting, split, rows, batch_size, width)
            first = table["query_index"] == 0
            right[point] = (table["kind"][first] == 0).sum()
            tables.append({"curve": np.full(len(first), name), **table})
            hashes[setting] = task.rows_hash(split, 0, rows, **setting._asdict())
        fits = [task.row_tokens(s.pairs, s.fillers) <= training_length for s in settings]
        trained = np.array(fits) & [s.pairs <= max(task.pairs) for s in settings]
        curves.append(Curve(settings, right, np.full(len(settings), rows), trained, task.values))
    joined = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
    return Recall(*curves, joined, split, _digest(hashes), training_length)


def delays(task, longest: int) -> list[Setting]:
    """I = 0 and F = 0, 1, 3, 7, ...: distances that are powers of two, in rows of up to `longest` tokens."""
    pairs = max(task.pairs)
    settings = []
    while task.row_tokens(pairs, (fillers := (1 << len(settings)) - 1)) <= longest:
        settings.append(Setting(0, fillers, pairs))
        if not task.filler_tokens:
            break
    if not settings:
        raise InputError(
            f"the shortest row of the task takes {task.row_tokens(pairs, 0)} tokens, and rows of up to "
            f"{longest} are evaluated: raise evaluate.row_length"
        )
    return settings


def interferences(task, longest: int) -> list[Setting]:
    """F = 0 and I = 0, 1, 2, 4, ...: at the task's load K as far as that goes, then with K = I + 1 pairs."""
    pairs = max(task.pairs)
    counts = sorted({0, pairs - 1, *(1 << n for n in range(task.keys.bit_length()))})
    settings = [Setting(count, 0, max(pairs, count + 1)) for count in counts]
    return [s for s in settings if s.pairs <= task.keys and task.row_tokens(s.pairs, 0) <= longest]


def _answers(scorer, task, setting: Setting, split: str, rows: int, batch_size: int, width: int):
    """The table of one point: a line a query, in order of rows."""

    def batches():
        for first in range(0, rows, batch_size):
            # The last batch is filled up with rows that are then dropped: one shape, one compilation.
            made = task.rows(split, first, batch_size, row_length=width, **setting._asdict())
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


def _digest(hashes: dict[Setting, str]) -> str:
    """One hash over those of all points."""
    return hashlib.blake2b(json.dumps(list(hashes.values())).encode(), digest_size=16).hexdigest()
