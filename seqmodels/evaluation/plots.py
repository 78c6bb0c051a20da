"""The pictures of an evaluation, drawn without a display: each axis with its unit, each point with its
interval.

Colours are those of Okabe and Ito, which the colour-blind can tell apart; lines differ in their markers too.
"""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from seqmodels.evaluation.positions import PositionCurve
from seqmodels.evaluation.recall import Curve, Recall
from seqmodels.evaluation.repeat import Repeat
from seqmodels.evaluation.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GREY = "#666666"
_LN2 = float(np.log(2.0))


def figure(columns: int = 1, *, width: float = 6.4, height: float = 4.2) -> tuple["Figure", Sequence["Axes"]]:
    """An empty figure of `columns` axes side by side; inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawn = Figure(figsize=(width * columns, height), layout="constrained")
    FigureCanvasAgg(drawn)
    return drawn, drawn.subplots(1, columns, squeeze=False)[0]


def png(drawn: "Figure") -> bytes:
    """The picture as a PNG file."""
    buffer = io.BytesIO()
    drawn.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()


def positions(curve: PositionCurve, title: str) -> "Figure":
    """NLL against position."""
    drawn, (axes,) = figure()
    add_positions(axes, curve, "", 0)
    mark_training_length(axes, curve.training_length)
    axes.set_title(title)
    legend(axes)
    return drawn


def add_positions(axes: "Axes", curve: PositionCurve, label: str, index: int) -> None:
    """One model's curve of NLL against position, with its band."""
    middle = np.sqrt(curve.first * curve.last)
    low, high, nll = (values / _LN2 for values in (curve.low, curve.high, curve.nll))
    name = f"{label or 'mean'}, 95 % over {curve.documents} documents"
    axes.fill_between(middle, low, high, color=COLOURS[index % 7], alpha=0.2, linewidth=0)
    axes.plot(middle, nll, color=COLOURS[index % 7], marker=MARKERS[index % 7], markersize=4, label=name)
    _log2_axis(axes, "position in the document (tokens)")
    axes.set_ylabel("negative log-likelihood (bits a token)")


def recall(result: Recall, title: str) -> "Figure":
    """Accuracy by delay and by interference, side by side."""
    drawn, panels = figure(2)
    drawn.suptitle(title)
    for axes, curve, name in zip(panels, (result.delay, result.interference), RECALL_PANELS, strict=True):
        add_recall(axes, curve, f"first query of {curve.queries[0]} rows, 95 %", 0)
        add_chance(axes, curve)
        mark_last_trained(axes, curve)
        axes.set_title(name)
        legend(axes)
    return drawn


RECALL_PANELS = ("by delay: fillers alone between (I = 0)", "by interference: pairs alone between (F = 0)")


def add_recall(axes: "Axes", curve: Curve, label: str, index: int) -> None:
    """One model's accuracy against distance, with Wilson intervals."""
    _points(axes, curve.distance, curve.accuracy, label, index)
    axes.set_ylim(-0.03, 1.03)
    axes.set_ylabel("accuracy")
    _log2_axis(axes, "distance from value to query (tokens)")


def add_chance(axes: "Axes", curve: Curve) -> None:
    """What guessing gives: any value of the alphabet, and any pair of the row."""
    chance = np.full(len(curve.settings), curve.chance_of_value)
    axes.plot(curve.distance, chance, color=GREY, linestyle=":", label=f"chance, 1 of {curve.values} values")
    pairs = {setting.pairs for setting in curve.settings}
    of = f"{min(pairs)}" if len(pairs) == 1 else f"{min(pairs)} to {max(pairs)}"
    axes.plot(
        curve.distance,
        curve.chance_of_row,
        color=GREY,
        linestyle="-.",
        label=f"chance, 1 of the row's {of} pairs",
    )


def mark_last_trained(axes: "Axes", curve: Curve) -> None:
    """A dashed line behind the last distance that training had."""
    if curve.trained.any() and not curve.trained.all():
        last = np.flatnonzero(curve.trained)[-1]
        edge = np.sqrt(curve.distance[last] * curve.distance[last + 1])
        axes.axvline(edge, color=GREY, linestyle="--", linewidth=1, label="training ends (length or pairs)")


def repeat(result: Repeat, title: str) -> "Figure":
    """What a first copy saves, and the accuracy with and without it, by distance."""
    drawn, (gains, accuracies) = figure(2)
    drawn.suptitle(title)
    _points(gains, result.distances, result.gain, f"{result.passages} passages, 95 %", 0)
    gains.axhline(0, color=GREY, linestyle=":", label="no recall")
    gains.set_ylabel("gain over the control (bits a token)")
    _points(accuracies, result.distances, result.accuracy, "second copy", 0)
    _points(accuracies, result.distances, result.control_accuracy, "control: no first copy", 1)
    accuracies.set_ylim(-0.03, 1.03)
    accuracies.set_ylabel("accuracy on the copy")
    for axes in (gains, accuracies):
        _log2_axis(axes, "distance between the copies (tokens)")
        if result.distances[-1] >= result.training_length:
            mark_training_length(axes, result.training_length)
        legend(axes)
    return drawn


def legend(axes: "Axes") -> None:
    """Below the axes, where it hides nothing."""
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, fontsize="small", frameon=False)


def mark_training_length(axes: "Axes", length: int) -> None:
    """A dashed line at the row length of training."""
    axes.axvline(length, color=GREY, linestyle="--", linewidth=1, label=f"training length, {length} tokens")


def _points(axes: "Axes", x: np.ndarray, estimates: Sequence[Estimate], label: str, index: int) -> None:
    value, low, high = np.array(estimates, np.float64).T
    axes.errorbar(
        x,
        value,
        yerr=(np.maximum(value - low, 0), np.maximum(high - value, 0)),
        color=COLOURS[index % 7],
        marker=MARKERS[index % 7],
        markersize=4,
        capsize=2,
        label=label,
    )


def _log2_axis(axes: "Axes", label: str) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(LogLocator(base=2, numticks=12))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(label)
    axes.grid(True, alpha=0.25)
