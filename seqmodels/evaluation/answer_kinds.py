"""How answers go wrong, by the load of the row: a wrong binding, a stale value, an invented one, or none."""

import dataclasses

import numpy as np

from seqmodels.evaluation.answers import ANSWER_KINDS, STALE
from seqmodels.evaluation.statistics import Estimate, around, resample_shares, wilson


@dataclasses.dataclass(frozen=True)
class AnswerKinds:
    """How often answers are of each kind, in order of the pairs of their rows.

    counts, shares: [loads, kinds]. stale: the share of answers with the value that the key had before, among
    `rebound` queries whose key had one; None where no key was written twice. Intervals are Wilson's where one
    query of a row counts; otherwise they resample rows.
    """

    pairs: np.ndarray
    counts: np.ndarray
    shares: list[list[Estimate]]
    rebound: int
    stale: Estimate | None

    def summary(self) -> dict:
        rate = {} if self.stale is None else {"stale": self.stale._asdict(), "rebound_queries": self.rebound}
        return {
            **rate,
            "by_pairs": [
                {
                    "pairs": int(pairs),
                    "queries": int(counts.sum()),
                    **{kind: share._asdict() for kind, share in zip(ANSWER_KINDS, shares, strict=True)},
                }
                for pairs, counts, shares in zip(self.pairs, self.counts, self.shares, strict=True)
            ],
        }


def by_pairs(table: dict[str, np.ndarray], first_query: bool) -> AnswerKinds:
    """From a table of queries; first_query: whether those alone count that are the first of their row."""
    counted = table["query_index"] == 0 if first_query else table["query_index"] >= 0
    row, pairs, kind = table["row"][counted], table["pairs"][counted], table["kind"][counted]
    of_kind = kind[:, None] == np.arange(len(ANSWER_KINDS))
    loads = np.unique(pairs)
    counts = np.array([of_kind[pairs == load].sum(axis=0) for load in loads])
    shares = [_shares(of_kind[pairs == load], row[pairs == load], first_query) for load in loads]
    rebound = table["stale_answer"][counted] >= 0 if "stale_answer" in table else np.zeros(len(row), bool)
    stale = None
    if rebound.any():
        stale = _shares(of_kind[rebound], row[rebound], first_query)[STALE]
    return AnswerKinds(loads, counts, shares, int(rebound.sum()), stale)


def _shares(of_kind: np.ndarray, row: np.ndarray, first_query: bool) -> list[Estimate]:
    """Of each kind, from bool [queries, kinds]."""
    if first_query:
        return [wilson(int(count), len(of_kind)) for count in of_kind.sum(axis=0)]
    rows, of_row = np.unique(row, return_inverse=True)
    in_row = np.zeros((len(rows), of_kind.shape[1]))
    np.add.at(in_row, of_row, of_kind)
    asked = np.repeat(in_row.sum(axis=1, keepdims=True), of_kind.shape[1], axis=1)
    samples = resample_shares(in_row, asked)
    return [around(share, samples[:, at]) for at, share in enumerate(of_kind.mean(axis=0))]
