"""The picture of the interventions: shares before and after, beside what a perfect memory and chance give."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from seqmodels.evaluation import plots
from seqmodels.evaluation.intervention_effects import Effect
from seqmodels.evaluation.interventions import Interventions
from seqmodels.evaluation.state_interventions import BITS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH = 5.0
_PERFECT_MARK = {
    "linestyle": "none",
    "markersize": 16,
    "markeredgewidth": 2,
    "color": plots.COLOURS[2],
    "label": "a perfect memory",
}


def interventions(result: Interventions, title: str) -> "Figure":
    """Three panels: the interventions by name, the context by tokens kept, the state by bits."""
    named = [*result.effects, *result.layers]
    drawn, (by_name, by_context, by_bits) = plots.figure(
        3, width=_WIDTH, height=max(4.6, 1.8 + 0.28 * len(named))
    )
    drawn.suptitle(f"{title}: {result.rows} rows, {result.pairs} pairs, {result.fillers} fillers")
    _by_name(by_name, named, result)
    _by_context(by_context, result)
    _by_bits(by_bits, result)
    for axes in (by_name, by_context, by_bits):
        plots.legend(axes)
    return drawn


def _by_name(axes: "Axes", effects: Sequence[Effect], result: Interventions) -> None:
    """One line an effect, from top to bottom."""
    height = np.arange(len(effects))
    for index, (name, what) in enumerate((("before", "without"), ("after", "with"))):
        value, low, high = np.array([getattr(effect, name) for effect in effects]).T
        below, above = np.maximum(value - low, 0), np.maximum(high - value, 0)
        axes.errorbar(
            value,
            height,
            xerr=(below, above),
            capsize=2,
            linestyle="none",
            color=plots.COLOURS[1 - index],
            marker=plots.MARKERS[1 - index],
            markersize=5,
            markerfacecolor=plots.COLOURS[0] if index else "white",
            label=f"{what} the intervention, 95 %",
        )
    perfect = np.array([effect.perfect for effect in effects])
    axes.plot(perfect, height, marker="|", **_PERFECT_MARK)
    axes.axvline(1 / result.values, color=plots.GREY, linestyle=":", label=_chance_of_value(result))
    axes.axvline(1 / result.pairs, color=plots.GREY, linestyle="-.", label=_chance_of_row(result))
    axes.set_yticks(height, [effect.label for effect in effects])
    axes.invert_yaxis()
    axes.set_xlim(-0.03, 1.03)
    axes.set_xlabel("share of rows with that answer")
    axes.grid(True, axis="x", alpha=0.25)
    axes.set_title("does the answer follow?")


def _by_context(axes: "Axes", result: Interventions) -> None:
    kept = np.array(result.kept)
    plots.points(axes, kept, [effect.after for effect in result.context], "accuracy, 95 %", 0)
    _perfect(axes, kept, result.context)
    plots.log2_axis(axes, "tokens kept before the query")
    _accuracy(axes, result, "the context is cut to its last tokens")


def _by_bits(axes: "Axes", result: Interventions) -> None:
    """Fewest bits first; behind them the state as it is."""
    effects = result.bits[::-1]
    place = np.arange(len(effects) + 1)
    shares = [effect.after for effect in effects] + [effects[0].before]
    plots.points(axes, place, shares, "accuracy, 95 %", 0)
    _perfect(axes, place[:-1], effects)
    axes.set_xticks(place, [*(str(bits) for bits in BITS[::-1]), "as it is"])
    axes.set_xlabel("bits for each number of the state")
    axes.grid(True, alpha=0.25)
    _accuracy(axes, result, "the state is rounded behind the pairs")


def _perfect(axes: "Axes", x: np.ndarray, effects: Sequence[Effect]) -> None:
    perfect = [effect.perfect for effect in effects]
    axes.plot(x, perfect, marker="_", **_PERFECT_MARK)


def _accuracy(axes: "Axes", result: Interventions, title: str) -> None:
    axes.axhline(1 / result.values, color=plots.GREY, linestyle=":", label=_chance_of_value(result))
    axes.axhline(1 / result.pairs, color=plots.GREY, linestyle="-.", label=_chance_of_row(result))
    plots.accuracy_axis(axes)
    axes.set_title(title)


def _chance_of_value(result: Interventions) -> str:
    return f"chance, 1 of {result.values} values"


def _chance_of_row(result: Interventions) -> str:
    return f"chance, 1 of the row's {result.pairs} pairs"
