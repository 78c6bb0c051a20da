"""How long a memory lasts, from its log-decays and from curves that fall with the lag.

A unit (a head, a channel, a number of the state) that a token multiplies by a_t keeps Π a_t of what it
held. Its half-life is −ln 2 / mean(log a_t) tokens, from the mean of the logs, since factors multiply. The
mean of the factors themselves would promise more: one of 0.01 among nine of 1 averages 0.9, and leaves a
hundredth.
"""

import dataclasses
from functools import cached_property

import numpy as np

from seqmodels.evaluation.statistics import Estimate, around, resample_sums

# Fewer than elsewhere: thousands of units are resampled at once.
RESAMPLES = 200


def half_life(mean_log: np.ndarray) -> np.ndarray:
    """−ln 2 / mean log-decay, in tokens; infinite where nothing decays."""
    rate = -np.asarray(mean_log, np.float64)
    return np.divide(np.log(2.0), rate, out=np.full(rate.shape, np.inf), where=rate > 0)


def effective_memory(mean_log: np.ndarray) -> np.ndarray:
    """1/(1 − a) for a = e^{mean log-decay}: what a sum that fades by a holds, in tokens of full weight."""
    rate = -np.asarray(mean_log, np.float64)
    return np.divide(1.0, -np.expm1(-rate), out=np.full(rate.shape, np.inf), where=rate > 0)


@dataclasses.dataclass(frozen=True)
class HalfLives:
    """The log-decays of one layer of one name, summed over the tokens of each kind.

    sums: [rows, kinds, units]; counts: [rows, kinds]. shape: the units as they stand in the mixer, [H],
    [H, K] or another. Kinds are named; None stands for all tokens.
    """

    sums: np.ndarray
    counts: np.ndarray
    kinds: tuple[str, ...]
    shape: tuple[int, ...]

    def mean_log(self, kind: str | None = None) -> np.ndarray:
        """The mean log-decay of each unit, [units]."""
        sums, counts = self._of(kind)
        return sums.sum(axis=0) / counts.sum()

    def tokens(self, kind: str | None = None) -> np.ndarray:
        """The half-life of each unit, [units]."""
        return half_life(self.mean_log(kind))

    def median(self, kind: str | None = None) -> Estimate:
        """The half-life of the unit in the middle; its interval resamples rows."""
        return around(float(_middle(self.mean_log(kind))), _middle(self._samples(kind)))

    def beyond(self, length: int) -> Estimate:
        """The share of units whose half-life is longer than `length` tokens."""

        def share(mean_log):
            return (half_life(mean_log) > length).mean(axis=-1)

        return around(float(share(self.mean_log())), share(self._samples(None)))

    def summary(self, length: int) -> dict:
        memory = effective_memory(self.mean_log())
        return {
            "units": list(self.shape),
            "half_life": self.median()._asdict(),
            "half_life_by_kind": {kind: self.median(kind)._asdict() for kind in self.kinds},
            "effective_memory": float(np.median(memory)),
            "share_beyond_training_length": self.beyond(length)._asdict(),
        }

    def every_unit(self) -> dict:
        """Half-lives of all units in their order, to four digits; infinite where nothing decays."""

        def numbers(kind):
            return [float(f"{value:.4g}") for value in self.tokens(kind)]

        return {"all": numbers(None), **{kind: numbers(kind) for kind in self.kinds}}

    def _of(self, kind):
        if kind is None:
            return self.sums.sum(axis=1, dtype=np.float64), self.counts.sum(axis=1)
        index = self.kinds.index(kind)
        return self.sums[:, index].astype(np.float64), self.counts[:, index]

    def _samples(self, kind):
        """[RESAMPLES, units] mean log-decays over resampled rows."""
        sums, counts = self._of(kind)
        drawn = resample_sums(np.concatenate([sums, counts[:, None]], axis=1), resamples=RESAMPLES)
        drawn = drawn[drawn[:, -1] > 0]  # a resample may hold no token of a rare kind
        return drawn[:, :-1] / drawn[:, -1:]


def _middle(mean_log: np.ndarray) -> np.ndarray:
    return half_life(np.median(mean_log, axis=-1))


def falls_through(lags: np.ndarray, curve: np.ndarray, level: float) -> np.ndarray:
    """The lags [...] at which curves [..., lags] first fall through `level`.

    Their logs are interpolated linearly, which is exact where a curve is exponential. The first lag where a
    curve starts below; infinite where it never falls so far.
    """
    logs = np.log(np.maximum(np.asarray(curve, np.float64), np.finfo(np.float32).tiny))
    below = logs < np.log(level)
    after = np.maximum(below.argmax(axis=-1), 1)
    upper, lower = (
        np.take_along_axis(logs, place[..., None], axis=-1)[..., 0] for place in (after - 1, after)
    )
    drop = np.where(upper > lower, upper - lower, 1)
    at = lags[after - 1] + (upper - np.log(level)) / drop * (lags[after] - lags[after - 1])
    return np.select([below[..., 0], ~below.any(axis=-1)], [float(lags[0]), np.inf], at)


@dataclasses.dataclass(frozen=True)
class Survival:
    """What is left of a state after 1, 2, 4, ... tokens, e^{Σ log-decay}, on average over units and places.

    sums, counts: [rows, lags].
    """

    sums: np.ndarray
    counts: np.ndarray

    @property
    def lags(self) -> np.ndarray:
        """Those that every row has room for, and 0 before them."""
        return np.concatenate([[0], 1 << np.arange(self._kept)])

    @property
    def left(self) -> np.ndarray:
        """[lags], 1 at lag 0."""
        return self._curve(self._columns.sum(axis=0, keepdims=True))[0]

    @cached_property
    def samples(self) -> np.ndarray:
        """[resamples, lags], of resampled rows."""
        return self._curve(resample_sums(self._columns))

    @property
    def half_life(self) -> Estimate:
        """The lag at which half is left; infinite where more is left at the longest lag."""
        value, samples = (falls_through(self.lags, curve, 0.5) for curve in (self.left, self.samples))
        return around(float(value), samples)

    def summary(self) -> dict:
        return {
            "half_life": self.half_life._asdict(),
            "lags": self.lags.tolist(),
            "left": [float(f"{value:.4g}") for value in self.left],
        }

    @property
    def _kept(self) -> int:
        return int((self.counts > 0).all(axis=0).sum())

    @property
    def _columns(self):
        return np.stack([self.sums[:, : self._kept], self.counts[:, : self._kept]], axis=-1)

    def _curve(self, drawn):
        left = drawn[..., 0] / drawn[..., 1]
        return np.concatenate([np.ones((len(left), 1)), left], axis=1)
