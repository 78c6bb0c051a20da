"""What is still felt of a token some way back: the gradient of an output to the inputs before it.

One vector-Jacobian product gives ‖∂(r·h_T)/∂x_{T−τ}‖ for every lag τ at once. Over normal r its mean square
is the squared Frobenius norm of ∂h_T/∂x_{T−τ}: every row brings one r, and rows are averaged.
"""

import dataclasses
from functools import cached_property

import numpy as np

from seqmodels.evaluation.half_lives import falls_through
from seqmodels.evaluation.statistics import Estimate, around, resample_sums

# Of an octave of lags: fine enough for an exponential to be straight in each, coarse enough to average noise.
BINS_AN_OCTAVE = 4


@dataclasses.dataclass(frozen=True)
class ImpulseResponse:
    """norms: [rows, lags] by lag from 0. start: the first lag that reaches the output through the state
    alone, behind what short convolutions show it of the tokens just before.
    """

    norms: np.ndarray
    start: int

    @cached_property
    def bins(self) -> np.ndarray:
        """The first lag of each bin: 0, 1, 2, 3, ... in quarters of an octave."""
        lags = self.norms.shape[1]
        steps = np.arange(BINS_AN_OCTAVE * int(np.ceil(np.log2(max(lags, 2)))) + 1) / BINS_AN_OCTAVE
        edges = np.unique(np.round(2**steps).astype(int))
        return np.concatenate([[0], edges[edges < lags]])

    @property
    def lags(self) -> np.ndarray:
        """The middle of each bin."""
        last = np.append(self.bins[1:], self.norms.shape[1]) - 1
        return np.sqrt(self.bins * last)

    @property
    def curve(self) -> np.ndarray:
        """The root mean square over rows and the lags of each bin, [bins]."""
        return self._curve(self._squares.sum(axis=0, keepdims=True), len(self._squares))[0]

    @cached_property
    def samples(self) -> np.ndarray:
        """[resamples, bins], of resampled rows."""
        return self._curve(resample_sums(self._squares), len(self._squares))

    @cached_property
    def half_life(self) -> Estimate:
        """Tokens from `start` on until half is left of what is felt there; infinite where more is left at the
        longest lag. NaN where rows are no longer than `start`, or nothing is felt there.
        """
        first = int(np.searchsorted(self.bins, self.start))
        if first >= len(self.bins) - 1 or not self.curve[first] > 0:
            return Estimate(float("nan"), float("nan"), float("nan"))
        lags = self.lags[first:] - self.lags[first]
        value, samples = (
            falls_through(lags, curve[..., first:] / curve[..., first : first + 1], 0.5)
            for curve in (self.curve, self.samples)
        )
        return around(float(value), samples)

    def reach(self, share: float) -> Estimate:
        """The distance within which `share` of the gradient lies: of the sum of norms over all lags."""
        total = self.norms.astype(np.float64)
        samples = np.array([_reach(sample, share) for sample in resample_sums(total)])
        return around(_reach(total.sum(axis=0), share), samples)

    def summary(self) -> dict:
        return {
            "half_life": self.half_life._asdict(),
            "from_lag": self.start,
            "lags": [round(float(lag), 2) for lag in self.lags],
            "response": [float(f"{value:.4g}") for value in self.curve],
        }

    @property
    def _squares(self):
        """[rows, bins] means."""
        sums = np.add.reduceat(np.square(self.norms, dtype=np.float64), self.bins, axis=1)
        return sums / np.diff(np.append(self.bins, self.norms.shape[1]))

    def _curve(self, sums, rows):
        return np.sqrt(sums / rows)


def by_lag(response: np.ndarray, last: np.ndarray, lags: int) -> np.ndarray:
    """[rows, lags] of a response [rows, T] that is counted back from `last` [rows]."""
    return np.take_along_axis(response, last[:, None].astype(int) - np.arange(lags), axis=1)


def _reach(norms: np.ndarray, share: float) -> float:
    total = norms.sum()
    if not total > 0:
        return float("nan")
    inside = np.cumsum(norms) / total
    index = int(np.searchsorted(inside, share))
    before = inside[index - 1] if index else 0.0
    # The share of a lag is spread over the step that leads to it; that of lag 0, the token itself, over none.
    return max(0.0, index - 1 + (share - before) / (inside[index] - before))
