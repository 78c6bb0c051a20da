"""What a grid of learning rates and seeds comes to: success is often bimodal, and no mean says so.

Of each rate: median, minimum and maximum over the seeds, and how many of them solved the task. The best rate
is chosen by validation rows, and the width of the window around it tells how much the choice matters. A seed
that failed counts as the worst value there is.
"""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from seqmodels.evaluation.statistics import Estimate, wilson


class Criterion(NamedTuple):
    """What members are compared by.

    tag: of the figure. name: as it reads. worst: its value for a member that failed. tolerance: a median that
    is worse than the best by no more lies within the window. solved: the value from which on a member has
    solved the task; None where there is no such value, and lower is then better.
    """

    tag: str
    name: str
    worst: float
    tolerance: float
    solved: float | None


_RECALL = Criterion("eval/recall_area", "recall area", 0.0, 0.05, 0.95)
_TEXT = Criterion("eval/bits_per_byte", "bits per byte", math.inf, 0.02, None)
CRITERIA = {"recall": _RECALL, "mixture": _RECALL, "text": _TEXT}
"""By kind of data; a mixture is trained on for the sake of its task."""


class Rate(NamedTuple):
    """One learning rate: the values of its seeds, those that failed among them as the worst."""

    learning_rate: float
    values: tuple[float, ...]
    failed: int
    criterion: Criterion

    @property
    def median(self) -> float:
        """Over the seeds."""
        return statistics.median(self.values)

    @property
    def solved(self) -> int | None:
        """How many seeds solved the task; None where it cannot be solved."""
        if self.criterion.solved is None:
            return None
        return sum(value >= self.criterion.solved for value in self.values)

    @property
    def solving(self) -> Estimate | None:
        """The share of seeds that solve the task, with Wilson's interval."""
        return None if self.solved is None else wilson(self.solved, len(self.values))


class Window(NamedTuple):
    """Rates that do as well as the best: from low to high, the best between them.

    open_below, open_above: whether it reaches the end of the grid, and may go on beyond.
    """

    low: float
    high: float
    open_below: bool
    open_above: bool

    @property
    def factor(self) -> float:
        """Its width."""
        return self.high / self.low

    @property
    def octaves(self) -> float:
        """Its width, as a power of two."""
        return math.log2(self.factor)


class RateCurve(NamedTuple):
    """A config over the rates of a grid, in ascending order; chance: the value of guessing, where known."""

    label: str
    rates: tuple[Rate, ...]
    criterion: Criterion
    chance: float | None

    @property
    def best(self) -> Rate:
        """The rate with the best median; of equals, the one whose worst seed, then whose mean is best, then
        the lowest."""
        if self.criterion.solved is None:
            return min(self.rates, key=lambda rate: (rate.median, max(rate.values), sum(rate.values)))
        return max(self.rates, key=lambda rate: (rate.median, min(rate.values), sum(rate.values)))

    @property
    def window(self) -> Window:
        """The rates side by side with the best whose median solves the task, or is within the tolerance."""
        at = self.rates.index(self.best)
        first = last = at
        while first > 0 and self._as_good(self.rates[first - 1]):
            first -= 1
        while last + 1 < len(self.rates) and self._as_good(self.rates[last + 1]):
            last += 1
        low, high = self.rates[first].learning_rate, self.rates[last].learning_rate
        return Window(low, high, first == 0, last + 1 == len(self.rates))

    def _as_good(self, rate: Rate) -> bool:
        solved = self.criterion.solved
        if solved is not None and rate.median >= solved:
            return True
        return abs(rate.median - self.best.median) <= self.criterion.tolerance


def curve(
    label: str,
    criterion: Criterion,
    values: Sequence[tuple[float, float | None]],
    chance: float | None = None,
) -> RateCurve:
    """The curve of a config from the (learning rate, value) of each of its members; None for one that failed.

    A value that is not finite counts as failed.
    """
    rates = []
    for rate in sorted({rate for rate, _ in values}):
        own = [value for at, value in values if at == rate]
        whole = tuple(
            criterion.worst if value is None or not math.isfinite(value) else value for value in own
        )
        failed = sum(value is None or not math.isfinite(value) for value in own)
        rates.append(Rate(rate, whole, failed, criterion))
    return RateCurve(label, tuple(rates), criterion, chance)
