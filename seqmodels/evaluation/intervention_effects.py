"""What an intervention does to the answers of the same rows: shares before and after, and their change."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from seqmodels.evaluation.scorer import in_flight, most_likely
from seqmodels.evaluation.statistics import Estimate, paired_difference, wilson

# The share of a perfect memory, where it depends on how that memory is laid out.
DEPENDS = float("nan")


@dataclasses.dataclass(frozen=True)
class Effect:
    """The share of rows with a certain answer, without and with an intervention.

    name: for tags. label: for people. before, after: the shares, with Wilson's interval. change: after less
    before, with the interval from resampled rows. perfect_before, perfect: the shares of a memory that is
    always right, and guesses a value where it can only guess. rows: how many were counted.
    """

    name: str
    label: str
    before: Estimate
    after: Estimate
    change: Estimate
    perfect_before: float
    perfect: float
    rows: int

    def summary(self) -> dict:
        return {k: v._asdict() if isinstance(v, Estimate) else v for k, v in vars(self).items()}


def effect(
    name: str,
    label: str,
    before: np.ndarray,
    after: np.ndarray,
    answer: np.ndarray,
    *,
    perfect: tuple[float, float],
    counted: np.ndarray | None = None,
) -> Effect:
    """The effect on the share of rows that say `answer`; before, after, answer: token ids [rows].

    perfect: the shares before and after of a perfect memory. counted: [rows] bool; None: all.
    """
    chosen = np.ones(len(answer), bool) if counted is None else counted
    was, became = ((said == answer)[chosen] for said in (before, after))
    shares = [wilson(int(right.sum()), len(right)) for right in (was, became)]
    change = paired_difference(became, was, np.ones(len(was)), bound=1.0)
    return Effect(name, label, *shares, change, *map(float, perfect), len(was))


def batches(rows: int, batch_size: int) -> Iterator[tuple[np.ndarray, int]]:
    """(indices [batch_size], how many of them count) over all rows.

    The last batch is filled up with rows that are then dropped: one shape, one compilation.
    """
    for first in range(0, rows, batch_size):
        yield np.arange(first, first + batch_size) % rows, min(batch_size, rows - first)


def answers(scorer, tokens: np.ndarray, segment_ids: np.ndarray, batch_size: int) -> np.ndarray:
    """[rows]: the most likely token after each row [rows, T]."""

    def scored():
        for chosen, count in batches(len(tokens), batch_size):
            yield scorer.logits(tokens[chosen], segment_ids[chosen], last_position(tokens[chosen])), count

    made = in_flight(scored(), len(tokens), batch_size)
    return np.concatenate([most_likely(logits[:count, 0]) for logits, count in made])


def last_position(tokens: np.ndarray) -> np.ndarray:
    """int32 [B, 1]: where the rows [B, T] end."""
    return np.full((len(tokens), 1), tokens.shape[1] - 1, np.int32)
