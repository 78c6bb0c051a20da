"""The pictures of an evaluation: axes with units, points with intervals, controls and chance as lines.

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
    low, high, nll = (values / _LN2 for values in (curve.low, curve.high, curve.nll))
    band(axes, curve.middle, nll, low, high, f"mean, 95 % over {curve.documents} documents", 0)
    axes.set_ylabel(NLL)
    log2_axis(axes, POSITION)
    mark_training_length(axes, curve.training_length)
    axes.set_title(title)
    legend(axes)
    return drawn


def recall(result: Recall, title: str) -> "Figure":
    """Accuracy by delay and by interference, side by side."""
    drawn, panels = figure(2)
    drawn.suptitle(title)
    for axes, curve, name in zip(panels, (result.delay, result.interference), RECALL_PANELS, strict=True):
        points(axes, curve.distance, curve.accuracy, f"first query of {curve.queries[0]} rows, 95 %", 0)
        accuracy_axis(axes)
        log2_axis(axes, RECALL_DISTANCE)
        _add_chance(axes, curve)
        mark_last_trained(axes, curve.distance, curve.trained)
        axes.set_title(name)
        legend(axes)
    return drawn


RECALL_PANELS = ("by delay: fillers alone between (I = 0)", "by interference: pairs alone between (F = 0)")
RECALL_DISTANCE = "distance from value to query (tokens)"
REPEAT_DISTANCE = "distance between the copies (tokens)"
REPEAT_GAIN = "gain over the control (bits a token)"
POSITION = "position in the document (tokens)"
NLL = "negative log-likelihood (bits a token)"


def _add_chance(axes: "Axes", curve: Curve) -> None:
    """What guessing gives: any value of the alphabet, and any pair of the row."""
    chance = np.full(len(curve.queries), curve.chance_of_value)
    axes.plot(curve.distance, chance, color=GREY, linestyle=":", label=f"chance, 1 of {curve.values} values")
    pairs = {point.pairs for point in curve.sweep.points}
    of = f"{min(pairs)}" if len(pairs) == 1 else f"{min(pairs)} to {max(pairs)}"
    axes.plot(
        curve.distance,
        curve.chance_of_row,
        color=GREY,
        linestyle="-.",
        label=f"chance, 1 of the row's {of} pairs",
    )


def mark_last_trained(axes: "Axes", distance: np.ndarray, trained: np.ndarray) -> None:
    """A dashed line behind the last distance that training had, [points] each."""
    if trained.any() and not trained.all():
        last = np.flatnonzero(trained)[-1]
        edge = np.sqrt(distance[last] * distance[last + 1])
        axes.axvline(edge, color=GREY, linestyle="--", linewidth=1, label="training ends (length or pairs)")


def repeat(result: Repeat, title: str) -> "Figure":
    """What a first copy saves, and the accuracy with and without it, by distance."""
    drawn, (gains, accuracies) = figure(2)
    drawn.suptitle(title)
    points(gains, result.distances, result.gain, f"{result.passages} passages, 95 %", 0)
    gains.axhline(0, color=GREY, linestyle=":", label="no recall")
    gains.set_ylabel(REPEAT_GAIN)
    points(accuracies, result.distances, result.accuracy, "second copy", 0)
    points(accuracies, result.distances, result.control_accuracy, "control: no first copy", 1)
    accuracy_axis(accuracies)
    for axes in (gains, accuracies):
        log2_axis(axes, REPEAT_DISTANCE)
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


def points(axes: "Axes", x: np.ndarray, estimates: Sequence[Estimate], label: str, index: int) -> None:
    """A line through estimates with their intervals, in the index-th colour and marker."""
    value, low, high = np.array(estimates, np.float64).T
    below, above = np.maximum(value - low, 0), np.maximum(high - value, 0)
    axes.errorbar(x, value, yerr=(below, above), capsize=2, label=label, **_style(index))


def line(axes: "Axes", x: np.ndarray, y: np.ndarray, label: str, index: int) -> None:
    """A line in the index-th colour and marker."""
    axes.plot(x, y, label=label, markevery=max(1, len(x) // 25), **_style(index))


def band(
    axes: "Axes", x: np.ndarray, value: np.ndarray, low: np.ndarray, high: np.ndarray, label: str, index: int
) -> None:
    """A line within its band, in the index-th colour and marker."""
    axes.fill_between(x, low, high, color=COLOURS[index % len(COLOURS)], alpha=0.2, linewidth=0)
    line(axes, x, value, label, index)


def _style(index: int) -> dict[str, object]:
    lap, index = divmod(index, len(COLOURS))
    line = ("-", "--", "-.", ":")[lap % 4]
    return {"color": COLOURS[index], "marker": MARKERS[index], "markersize": 4, "linestyle": line}


def accuracy_axis(axes: "Axes") -> None:
    """From 0 to 1 whatever was measured, so that pictures compare."""
    axes.set_ylim(-0.03, 1.03)
    axes.set_ylabel("accuracy")


def tokens_axis(axes: "Axes") -> None:
    """Tokens trained on, in thousands or millions."""
    from matplotlib.ticker import EngFormatter

    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlabel("tokens trained on")
    axes.grid(True, alpha=0.25)


def log2_axis(axes: "Axes", label: str) -> None:
    """Distances and positions in powers of two."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(LogLocator(base=2, numticks=12))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(label)
    axes.grid(True, alpha=0.25)
