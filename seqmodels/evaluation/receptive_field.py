"""How far back a model's prediction depends on its tokens, measured three ways that need not agree.

By the gradient: the distance that holds 90 % of what is felt. By replacement: tokens at distance d and beyond
are replaced by those of another row; the distance from which that changes the prediction by a tenth of what
it does from distance 1 on. By behaviour: where recall falls through one half. What is felt need not be used,
and what is used in small differences need not suffice for an answer.
"""

import dataclasses
from typing import NamedTuple

import numpy as np

from seqmodels.evaluation.memory_rows import MemoryRows
from seqmodels.evaluation.scorer import finite, in_flight
from seqmodels.evaluation.statistics import Estimate, around, horizon50, ratio, resample_sums

_LN2 = float(np.log(2.0))
# Distances that differ by more than this factor disagree.
DISAGREEMENT = 2.0


@dataclasses.dataclass(frozen=True)
class Replacement:
    """What replacing all tokens at `distances` and beyond does to the prediction, [rows, distances], in bits.

    divergence: KL from the prediction without to that with the replacement. loss: what the right token's
    negative log-likelihood gains by it.
    """

    distances: np.ndarray
    divergence: np.ndarray
    loss: np.ndarray

    @property
    def curve(self) -> list[Estimate]:
        """The mean divergence at each distance."""
        return _means(self.divergence)

    def reach(self, share: float) -> Estimate:
        """The distance beyond which replacement makes 1 − share of the change that it makes from 1 on.

        0 where it changes nothing; infinite where more is left at the longest distance.
        """
        samples = np.array([self._reach(sample, share) for sample in resample_sums(self.divergence)])
        return around(self._reach(self.divergence.sum(axis=0), share), samples)

    def _reach(self, curve, share):
        if not curve[0] > 0:
            return 0.0
        return horizon50(self.distances, curve / curve[0] * (0.5 / (1 - share)))

    def summary(self) -> dict:
        return {
            "control": "the same rows as they are; replaced by another row's tokens at the same places",
            "unit": "bits",
            "by_distance": [
                {
                    "distance": int(distance),
                    "divergence": divergence._asdict(),
                    "loss": loss._asdict(),
                }
                for distance, divergence, loss in zip(
                    self.distances, self.curve, _means(self.loss), strict=True
                )
            ],
        }


def replacement(scorer, rows: MemoryRows, batch_size: int) -> Replacement:
    """At distances 1, 2, 4, ...; each row's tokens give way to those of the row after it."""
    distances = 1 << np.arange(int(rows.lags).bit_length())
    distances = distances[distances < rows.lags]
    plain = _log_probabilities(scorer, rows, rows.tokens, batch_size)
    right = np.arange(len(rows.target)), rows.target
    foreign = np.roll(rows.tokens, -1, axis=0)
    lag = rows.last[:, None] - np.arange(rows.tokens.shape[1])
    divergence, loss = np.empty((2, len(rows.tokens), len(distances)))
    for index, distance in enumerate(distances):
        tokens = np.where((lag >= distance) & (rows.segment_ids != 0), foreign, rows.tokens)
        changed = _log_probabilities(scorer, rows, tokens, batch_size)
        divergence[:, index] = (np.exp(plain) * (plain - changed)).sum(axis=-1) / _LN2
        loss[:, index] = (plain[right] - changed[right]) / _LN2
    return Replacement(distances, np.maximum(divergence, 0), loss)


def _log_probabilities(scorer, rows, tokens, batch_size):
    """[R, vocab] float64, of the prediction at each row's last token."""
    count = len(tokens)

    def batches():
        for first in range(0, count, batch_size):
            # Filled up with the last row, which is then dropped: one shape, one compilation.
            index = np.minimum(np.arange(first, first + batch_size), count - 1)
            arrays = tokens[index], rows.segment_ids[index], rows.last[index, None]
            yield scorer.logits(*arrays), min(batch_size, count - first)

    parts = [part[:kept, 0] for part, kept in in_flight(batches(), count, batch_size)]
    logits = np.concatenate(parts).astype(np.float64)
    logits -= finite(logits.max(axis=-1, keepdims=True), "logits")
    return logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))


class Behaviour(NamedTuple):
    """How far recall goes: `statistics.horizon50`, measured up to `longest` tokens; probe: says of what."""

    horizon: Estimate
    longest: float
    probe: str


def disagreement(fields: dict[str, float], longest: dict[str, float]) -> str | None:
    """What to say where receptive fields, in tokens by name, differ by more than a factor of 2; else None.

    longest: up to where each was measured, which stands for an infinite one.
    """
    known = {name: min(value, longest[name]) for name, value in fields.items() if not np.isnan(value)}
    if len(known) < 2:
        return None
    near, far = min(known, key=known.get), max(known, key=known.get)
    if known[far] <= DISAGREEMENT * max(known[near], 1.0):
        return None
    beyond = "more than " if fields[far] > longest[far] else ""
    return f"{far} reaches {beyond}{known[far]:.0f} tokens, {near} {known[near]:.0f}"


def _means(values: np.ndarray) -> list[Estimate]:
    return [ratio(column, np.ones(len(column))) for column in values.T]
