"""The picture of a sweep: each config's figure against the learning rate."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from seqmodels.evaluation.learning_rates import RateCurve
from seqmodels.evaluation.plots import COLOURS, GREY, MARKERS, accuracy_axis, figure, legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SPREAD = 0.035
"""Of the seeds' points around their rate, in octaves: configs of equal values would hide one another."""


def learning_rates(curves: Sequence[RateCurve], title: str) -> "Figure":
    """A line a config through its medians, a point a seed, a ring around the best rate.

    A seed that failed has no value of its own on the axis of text, and stands at its upper edge.
    """
    drawn, (axes,) = figure(width=7.2, height=5.0)
    criterion = curves[0].criterion
    top = _top(curves)
    for index, each in enumerate(curves):
        _curve(axes, each, index, len(curves), top)
    axes.plot([], [], "o", markersize=9, markerfacecolor="none", color=GREY, label="best rate, by the median")
    if criterion.solved is not None:
        axes.axhline(
            criterion.solved, color=GREY, linestyle="--", linewidth=1, label=f"solved, {criterion.solved:g}"
        )
        accuracy_axis(axes)
    for chance in sorted({each.chance for each in curves if each.chance is not None}):
        axes.axhline(chance, color=GREY, linestyle=":", linewidth=1, label=f"chance, {chance:.3g}")
    axes.set_ylabel(f"{criterion.name} on validation")
    _rate_axis(axes, sorted({rate.learning_rate for each in curves for rate in each.rates}))
    axes.set_title(title)
    legend(axes)
    return drawn


def _curve(axes: "Axes", each: RateCurve, index: int, count: int, top: float) -> None:
    colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
    shift = 2 ** (SPREAD * (index - (count - 1) / 2))
    x = np.array([rate.learning_rate for rate in each.rates]) * shift
    medians = np.minimum([rate.median for rate in each.rates], top)
    seeds = max(len(rate.values) for rate in each.rates)
    failed = sum(rate.failed for rate in each.rates)
    label = f"{each.label}, median of {seeds}" if seeds > 1 else f"{each.label}, one seed"
    label += f" ({failed} failed)" if failed else ""
    axes.plot(x, medians, color=colour, marker=marker, markersize=4, label=label)
    for at, rate in zip(x, each.rates, strict=True):
        values = np.minimum(rate.values, top)
        axes.plot([at] * len(values), values, marker, color=colour, markersize=4, alpha=0.35, linestyle="")
    best = each.rates.index(each.best)
    axes.plot(x[best], medians[best], "o", markersize=11, markerfacecolor="none", color=colour)


def _top(curves: Sequence[RateCurve]) -> float:
    """Above all finite values, where those that are not find a place."""
    values = [value for each in curves for rate in each.rates for value in rate.values]
    finite = [value for value in values if np.isfinite(value)] or [1.0]
    if len(finite) == len(values):
        return max(finite)
    return max(finite) + 0.1 * max(max(finite) - min(finite), 0.1)


def _rate_axis(axes: "Axes", rates: Sequence[float]) -> None:
    """Logarithmic, with a tick at every rate of the grid."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(rates))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    if len(rates) > 8:
        axes.tick_params(axis="x", rotation=45)
    if len(rates) == 1:
        axes.set_xlim(rates[0] / 2, rates[0] * 2)
    axes.set_xlabel("learning rate (peak of the schedule)")
    axes.grid(True, alpha=0.25)
