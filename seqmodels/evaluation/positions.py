"""The loss at each position of a document, up to and beyond the training length.

Every point of the curve is measured on the same documents, each at least as long as the curve, so that it
falls because context grows and not because long documents differ from short ones.
"""

import dataclasses

import numpy as np

from seqmodels.evaluation.scorer import finite, in_flight
from seqmodels.evaluation.statistics import percentile_interval, resample_sums
from seqmodels.evaluation.windows import Rows, Windows, documents, fill

MIN_DOCUMENTS = 8


@dataclasses.dataclass(frozen=True)
class PositionCurve:
    """Mean NLL in nats a token by bins of position, [bins] each; position 1 is the first token after E.

    Bin b covers positions `first[b]` to `last[b]`; `low` and `high` bound it over resampled documents.
    """

    first: np.ndarray
    last: np.ndarray
    nll: np.ndarray
    low: np.ndarray
    high: np.ndarray
    documents: int
    length: int
    training_length: int

    @property
    def middle(self) -> np.ndarray:
        """Where a bin stands on a logarithmic axis, [bins]."""
        return np.sqrt(self.first * self.last)

    def scalars(self) -> dict[str, float]:
        return {
            "eval/loss_first_position": float(self.nll[0]),
            "eval/loss_last_position": float(self.nll[-1]),
        }

    def summary(self) -> dict:
        return {
            "length": self.length,
            "training_length": self.training_length,
            "documents": self.documents,
            "unit": "nats a token",
            "points": [
                {"first": int(first), "last": int(last), "nll": {"value": nll, "low": low, "high": high}}
                for first, last, nll, low, high in zip(
                    self.first,
                    self.last,
                    *map(np.ndarray.tolist, (self.nll, self.low, self.high)),
                    strict=True,
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
    tokens_per_batch: int,
    max_documents: int = 256,
) -> PositionCurve | None:
    """The curve up to position `longest`, halved until MIN_DOCUMENTS documents are that long.

    None where fewer documents than that have even 16 tokens.
    """
    source = documents(store, tokenizer)
    length = longest
    while length >= 16 and (source.length >= length).sum() < MIN_DOCUMENTS:
        length //= 2
    if length < 16:
        return None
    chosen = np.flatnonzero(source.length >= length)
    if len(chosen) > max_documents:
        chosen = np.random.Generator(np.random.Philox(0)).permutation(chosen)[:max_documents]
    whole = np.zeros(len(chosen), np.int64)
    windows = Windows(chosen, whole, whole + length, whole)
    batch_size = max(1, min(len(chosen), tokens_per_batch // length))

    def scored():
        for begin in range(0, len(chosen), batch_size):
            members = [[w] for w in range(begin, min(begin + batch_size, len(chosen)))]
            rows: Rows = fill(source, windows, members, batch_size, length)
            yield scorer.nll(*rows[:3]), len(members)

    parts = [values[:count] for values, count in in_flight(scored(), len(chosen), batch_size)]
    nll = finite(np.concatenate(parts), "losses by position").astype(np.float64)
    first, last = log_bins(length)
    means = np.add.reduceat(nll, first - 1, axis=1) / (last - first + 1)
    low, high = percentile_interval(resample_sums(means) / len(means))
    return PositionCurve(first, last, means.mean(axis=0), low, high, len(chosen), length, training_length)


def log_bins(length: int, per_octave: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """First and last position of bins that cover 1 to length, evenly spaced in log2; none is empty."""
    octaves = np.log2(length)
    edges = 2.0 ** (np.arange(int(np.ceil(octaves * per_octave)) + 1) / per_octave)
    first = np.unique(np.floor(edges[edges < length]).astype(np.int64))
    return first, np.append(first[1:] - 1, length)
