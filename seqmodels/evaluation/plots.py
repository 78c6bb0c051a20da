"""The pictures of an evaluation: axes with units, points with intervals, controls and chance as lines.

Colours are those of Okabe and Ito, which the colour-blind can tell apart; lines differ in their markers too.
"""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from seqmodels.evaluation.positions import PositionCurve
from seqmodels.evaluation.repeat import Repeat
from seqmodels.evaluation.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GREY = "#666666"
WIDEST_OF_TWO = 42  # letters of a label, of which two find room side by side
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


REPEAT_DISTANCE = "distance between the copies (tokens)"
REPEAT_GAIN = "gain over the control (bits a token)"
POSITION = "position in the document (tokens)"
NLL = "negative log-likelihood (bits a token)"


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


def legend(axes: "Axes", handles: Sequence["Artist"] | None = None) -> None:
    """Below the axes, where it hides nothing; of what has been drawn, or of the handles."""
    if handles is None:
        handles, _ = axes.get_legend_handles_labels()
    longest = max(len(handle.get_label()) for handle in handles)
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16)}
    columns = 2 if longest <= WIDEST_OF_TWO else 1
    axes.legend(handles=handles, fontsize="small", frameon=False, ncols=columns, **place)


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


def log2_axis(axes: "Axes", label: str, of: str = "x") -> None:
    """Distances, positions and loads in powers of two, along "x" or "y"."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    axis = axes.xaxis if of == "x" else axes.yaxis
    axes.set(**{f"{of}label": label})
    (axes.set_xscale if of == "x" else axes.set_yscale)("log", base=2)
    axis.set_major_locator(LogLocator(base=2, numticks=12))
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())
    axes.grid(True, alpha=0.25)
