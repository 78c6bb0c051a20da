"""Recall in natural text, without training for it: a passage that comes a second time.

A row is E, the passage A, filler text, and A again; its control is the same row with an unrelated passage B
in place of the first A. What the first A saves on the second one, in bits a token, is what the model
recalled. A, B and the filler stand a third of the held-out text apart; all distances use the same ones, and
share the end of the filler.
"""

import dataclasses

import numpy as np

from seqmodels.evaluation.scorer import (
    finite,
    in_flight,
    most_likely,
    nll_of_logits,
    shared_width,
)
from seqmodels.evaluation.statistics import (
    Estimate,
    around,
    horizon50,
    percentile_interval,
    ratio,
    resample_sums,
    share,
)

_LN2 = float(np.log(2.0))


@dataclasses.dataclass(frozen=True)
class Repeat:
    """Per distance [distances] and position in the copy [distances, passage_length]; gains in bits a token.

    The distance is that from a token of the second copy to the same token of the first. horizon50: the one
    at which the gain falls through half of that at the shortest; 0 where that one's interval is not above 0,
    infinite where the gain never falls so far. Intervals resample passages.
    """

    passages: int
    passage_length: int
    distances: np.ndarray
    gain: list[Estimate]
    horizon50: Estimate
    gain_by_position: np.ndarray
    gain_by_position_low: np.ndarray
    gain_by_position_high: np.ndarray
    accuracy: list[Estimate]
    control_accuracy: list[Estimate]
    training_length: int

    def scalars(self) -> dict[str, float]:
        return {
            f"eval/repeat_gain_{d}": gain.value for d, gain in zip(self.distances, self.gain, strict=True)
        }

    def summary(self) -> dict:
        return {
            "passages": self.passages,
            "passage_length": self.passage_length,
            "control": "an unrelated passage in place of the first copy",
            "unit": "bits a token",
            "horizon50": self.horizon50._asdict(),
            "by_distance": [
                {
                    "distance": int(distance),
                    "gain": gain._asdict(),
                    "accuracy": accuracy._asdict(),
                    "control_accuracy": control._asdict(),
                }
                for distance, gain, accuracy, control in zip(
                    self.distances, self.gain, self.accuracy, self.control_accuracy, strict=True
                )
            ],
        }


def measure(
    scorer,
    store,
    tokenizer,
    *,
    training_length: int,
    longest: int,
    batch_size: int,
    passages: int = 64,
    passage_length: int = 24,
) -> Repeat | None:
    """The probe at distances that double from the shortest, in rows of up to `longest` tokens.

    None where not even the shortest distance fits, or where the text is shorter than three such rows.
    """
    reachable = min(longest, len(store.tokens) // 3)
    distances = []
    while (distance := passage_length << len(distances)) + passage_length <= reachable:
        distances.append(distance)
    if not distances:
        return None
    source = _Passages(store.tokens, tokenizer.end_id, passages, passage_length)
    nll, right = (np.empty((2, len(distances), passages, passage_length)) for _ in range(2))
    for control in (0, 1):
        for index, distance in enumerate(distances):
            width = shared_width(distance + passage_length, training_length, longest)
            nll[control, index], right[control, index] = source.score(
                scorer, distance, bool(control), batch_size=batch_size, width=width
            )
    gain = (nll[1] - nll[0]) / _LN2
    low, high = percentile_interval(resample_sums(np.moveaxis(gain, 1, 0)) / passages)
    lengths = np.full(passages, passage_length)
    gains = [ratio(values.sum(axis=1), lengths) for values in gain]
    # Half of a gain that is none but noise is reached at any distance.
    recalls = gains[0].low > 0
    return Repeat(
        passages=passages,
        passage_length=passage_length,
        distances=np.array(distances),
        gain=gains,
        horizon50=around(
            _horizon(distances, gain.sum(axis=(1, 2))) if recalls else 0.0,
            np.array([_horizon(distances, sample) for sample in resample_sums(gain.sum(axis=2).T)]),
        ),
        gain_by_position=gain.mean(axis=1),
        gain_by_position_low=low,
        gain_by_position_high=high,
        accuracy=[share(values.sum(axis=1), lengths) for values in right[0]],
        control_accuracy=[share(values.sum(axis=1), lengths) for values in right[1]],
        training_length=training_length,
    )


def _horizon(distances, gain):
    return horizon50(distances, gain / gain[0]) if gain[0] > 0 else 0.0


class _Passages:
    """The passages of one measurement, evenly spread over the held-out tokens from a fixed seed."""

    def __init__(self, tokens: np.ndarray, end_id: int, count: int, length: int):
        offset = np.random.Generator(np.random.Philox(0)).random(count)
        self._start = ((np.arange(count) + offset) / count * len(tokens)).astype(np.int64)
        self._tokens, self._end_id, self._length = tokens, end_id, length
        self.copied = self._spans(self._start, length)
        self.unrelated = self._spans(self._start + len(tokens) // 3, length)

    def _spans(self, start: np.ndarray, length: int) -> np.ndarray:
        """[len(start), length] consecutive tokens, past the last token going on at the first."""
        return np.asarray(self._tokens[(start[:, None] + np.arange(length)) % len(self._tokens)], np.int32)

    def rows(self, distance: int, control: bool) -> np.ndarray:
        """[passages, distance + length] inputs, of which the last `length` predict the second copy."""
        longest = 2 * (len(self._tokens) // 3)
        filler = self._spans(self._start + longest - (distance - self._length), distance - self._length)
        end = np.full((len(self._start), 1), self._end_id, np.int32)
        first = self.unrelated if control else self.copied
        return np.concatenate([end, first, filler, self.copied[:, :-1]], axis=1)

    def score(self, scorer, distance: int, control: bool, *, batch_size: int, width: int):
        """(NLL in nats, whether the most likely token is right) on the second copy, [passages, length]."""
        rows = self.rows(distance, control)
        tokens = np.zeros((-(-len(rows) // batch_size) * batch_size, width), np.int32)
        tokens[: len(rows), : rows.shape[1]] = rows
        segments = np.zeros_like(tokens)
        segments[: len(rows), : rows.shape[1]] = 1
        positions = np.tile(np.arange(distance, distance + self._length, dtype=np.int32), (len(tokens), 1))

        def logits():
            for first in range(0, len(tokens), batch_size):
                batch = slice(first, first + batch_size)
                yield scorer.logits(tokens[batch], segments[batch], positions[batch]), self.copied[batch]

        nll, right = [], []
        for values, targets in in_flight(logits(), len(tokens), batch_size):
            values = values[: len(targets)]
            nll.append(finite(nll_of_logits(values, targets), "losses of the repeat probe"))
            right.append(most_likely(values) == targets)
        return np.concatenate(nll), np.concatenate(right)
