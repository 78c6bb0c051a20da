"""Recalled bits: how much of what was written can be read again, and how that depends on the load.

A pair's value, one of V alike, holds log2 V bits; a model that gives it the probability p recalls
log2 V + log2 p of them. Averaged over rows that is a lower bound of the mutual information between the value
and the model's prediction (Barber and Agakov 2003), as long as the average is taken before what is negative
counts as nothing. With K pairs in a row,

    R(K) = sum over the K pairs of max(0, log2 V - NLL bits).

Every age of a pair (0: the newest, K - 1: the oldest) is asked for equally often, by the first query of rows
that end right behind the last pair (F = 0), a row for each query, so that trials are independent. Ages are
taken together by octaves (0, 1, 2 to 3, 4 to 7, ...): the mean is taken in each octave, then the maximum, and
an octave of s ages counts s times. Without that the noise of the few rows of an age would count as memory.
Intervals resample the rows of each octave.
"""

import dataclasses
import itertools
from typing import NamedTuple

import numpy as np

from seqmodels.data.tasks.recall_at_distance import RecallAtDistance
from seqmodels.data.tasks.task import doubling, numbers
from seqmodels.evaluation import random_memory
from seqmodels.evaluation.answers import RIGHT, Request
from seqmodels.evaluation.statistics import Estimate, around, resample_sums, wilson

REFERENCE_WIDTH = 16
_WIDEST_REFERENCE = 512
_REFERENCE_ROWS = 64
_REFERENCE_NUMBERS = 1_000_000
_FEWEST_BITS = float(np.finfo(np.float32).min)


class Load(NamedTuple):
    """What rows of `pairs` pairs (noise not counted) gave: the accuracy over all their pairs, and R.

    samples: R of resampled rows, [resamples]. trained: whether training had so many pairs in rows of that
    length. tokens: in such a row.
    """

    pairs: int
    queries: int
    accuracy: Estimate
    bits: Estimate
    samples: np.ndarray
    trained: bool
    tokens: int


class Reference(NamedTuple):
    """Memories with random keys of `width` x `width` numbers: R by rule at the same loads, and K*.

    of_model: whether that is the size of the model's state at the training length.
    """

    width: int
    of_model: bool
    bits: dict[str, list[Estimate]]
    critical_load: float


@dataclasses.dataclass(frozen=True)
class RecalledBits:
    """R at each load, in order, beside its references.

    values: V. state_elements: the numbers in the model's state after the row that gave the capacity; None
    where the scorer does not tell.
    """

    loads: list[Load]
    values: int
    state_elements: int | None
    reference: Reference

    @property
    def bits_of_value(self) -> float:
        """log2 V; K times that is what a cache of all pairs recalls."""
        return float(np.log2(self.values))

    @property
    def best(self) -> Load:
        """The load with the most recalled bits."""
        return max(self.loads, key=lambda load: load.bits.value)

    @property
    def capacity(self) -> Estimate:
        """The most recalled bits at any load; its interval takes the maximum anew in each resample."""
        return around(self.best.bits.value, np.max([load.samples for load in self.loads], axis=0))

    @property
    def capacity_per_element(self) -> Estimate | None:
        """Bits for each number of the state."""
        return self.capacity.scaled(1 / self.state_elements) if self.state_elements else None

    def scalars(self) -> dict[str, float]:
        figures = {"eval/recall_capacity_bits": self.capacity.value}
        if (per_element := self.capacity_per_element) is not None:
            figures["eval/recall_capacity_bits_per_state_element"] = per_element.value
        return figures

    def summary(self) -> dict:
        per_element, reference = self.capacity_per_element, self.reference
        return {
            "unit": "bits a row",
            "bits_of_value": self.bits_of_value,
            "capacity": self.capacity._asdict(),
            "capacity_at_pairs": self.best.pairs,
            "state_elements": self.state_elements,
            "capacity_per_state_element": None if per_element is None else per_element._asdict(),
            "by_pairs": [
                {
                    "pairs": load.pairs,
                    "bits": load.bits._asdict(),
                    "most": load.pairs * self.bits_of_value,
                    "accuracy": load.accuracy._asdict(),
                    "queries": load.queries,
                    "trained": load.trained,
                    **{f"{rule}_memory": bits[at]._asdict() for rule, bits in reference.bits.items()},
                }
                for at, load in enumerate(self.loads)
            ],
            "reference": {
                "width": reference.width,
                "of_model": reference.of_model,
                "critical_load": reference.critical_load,
            },
        }


def loads(task: RecallAtDistance, longest: int, rows: int) -> list[int]:
    """1, 2, 4, ... and the largest load of training, as far as `rows` rows of up to `longest` tokens go."""
    counts = sorted({*doubling(1, task.keys), max(numbers(task.settings["pairs"]))})
    return [k for k in counts if k <= rows and task.row_tokens(**_settings(k, 0)) <= longest]


def requests(pairs: int, rows: int) -> list[Request]:
    """Rows with `pairs` pairs, in equal parts for each of them to be the one that is asked for first."""
    edges = [age * rows // pairs for age in range(pairs + 1)]
    return [
        Request(_settings(pairs, age), end - begin, begin)
        for age, (begin, end) in enumerate(itertools.pairwise(edges))
    ]


def _settings(pairs: int, age: int) -> dict[str, int]:
    return {"pairs": pairs, "interference": age, "fillers": 0}


def measure(
    scorer, task: RecallAtDistance, tables: dict[int, dict[str, np.ndarray]], training_length: int
) -> RecalledBits:
    """From the table of each load's rows; state sizes are those of a scorer that has `state_elements`."""
    largest, values = max(numbers(task.settings["pairs"])), len(task.value_ids)
    measured = []
    for pairs, table in tables.items():
        first = table["query_index"] == 0
        gain = np.log2(values) - table["nll_bits"][first].astype(np.float64)
        real = int(table["pairs"][first].max())  # what is noise has no bits
        bits, samples = recalled(gain, table["interference"][first], pairs)
        bits, samples = bits.scaled(real / pairs), samples * (real / pairs)
        accuracy = wilson(int((table["kind"][first] == RIGHT).sum()), int(first.sum()))
        tokens = task.row_tokens(**_settings(pairs, 0))
        trained = pairs <= largest and tokens <= training_length
        measured.append(Load(real, int(first.sum()), accuracy, bits, samples, trained, tokens))
    elements = getattr(scorer, "state_elements", lambda length: None)
    best = max(measured, key=lambda load: load.bits.value)
    reference = reference_of([load.pairs for load in measured], values, elements(training_length))
    return RecalledBits(measured, values, elements(best.tokens), reference)


def recalled(gain: np.ndarray, age: np.ndarray, pairs: int) -> tuple[Estimate, np.ndarray]:
    """R with its interval, and of resampled rows [resamples].

    gain: log2 V - NLL of one pair of each row, in bits, [rows]; -inf of a value that was ruled out. age: of
    that pair, [rows].
    """
    # An infinity in rows that a resample does not draw would make it NaN.
    gain = np.maximum(gain, _FEWEST_BITS)
    octave = octaves(age)
    sizes = np.bincount(octaves(np.arange(pairs)))
    total, samples = 0.0, np.zeros(1)
    for index, size in enumerate(sizes):
        inside = gain[octave == index]
        total += size * np.maximum(0.0, inside.mean())
        means = resample_sums(inside, seed=index) / len(inside)
        samples = samples + size * np.maximum(0.0, means)
    return around(total, samples), samples


def octaves(age: np.ndarray) -> np.ndarray:
    """0 for the newest pair, then 1 for age 1, 2 for 2 to 3, 3 for 4 to 7, ..."""
    return np.frexp(np.asarray(age, np.float64))[1]


def reference_of(loads: list[int], values: int, state_elements: int | None) -> Reference:
    """The square memory of about as many numbers as the state has, up to 512 x 512; where that is not known,
    of 16 x 16.
    """
    width = REFERENCE_WIDTH if state_elements is None else max(1, round(state_elements**0.5))
    width = min(width, _WIDEST_REFERENCE)
    bits: dict[str, list[Estimate]] = {rule: [] for rule in random_memory.RULES}
    for pairs in loads:
        numbers = pairs * (pairs + values) + values * width
        rows = int(np.clip(_REFERENCE_NUMBERS // numbers, 4, _REFERENCE_ROWS))
        sizes = {"values": values, "key_width": width, "value_width": width, "rows": rows}
        octave = np.flatnonzero(np.diff(octaves(np.arange(pairs)), prepend=-1))
        for rule, reading in random_memory.simulate(pairs, **sizes).items():
            by_octave = np.add.reduceat(reading.bits[:, ::-1], octave, axis=1)
            means = np.maximum(0.0, resample_sums(by_octave) / rows)
            bits[rule].append(around(np.maximum(0.0, by_octave.mean(axis=0)).sum(), means.sum(axis=1)))
    known = state_elements is not None and width < _WIDEST_REFERENCE
    return Reference(width, known, bits, random_memory.critical_load(width, width, values))
