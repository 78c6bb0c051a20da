"""The pictures of the recall suite: curves, the map, recalled bits, kinds of answers."""

from typing import TYPE_CHECKING

import numpy as np

from seqmodels.evaluation.answer_kinds import AnswerKinds
from seqmodels.evaluation.answers import ANSWER_KINDS
from seqmodels.evaluation.plots import (
    COLOURS,
    GREY,
    accuracy_axis,
    figure,
    legend,
    log2_axis,
    points,
)
from seqmodels.evaluation.recall import Recall
from seqmodels.evaluation.recall_cells import FEWEST_QUERIES, Cells
from seqmodels.evaluation.recall_curve import Curve, is_linear
from seqmodels.evaluation.recalled_bits import RecalledBits, Reference

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAIRS = "pairs in the row (K)"
CACHE = "KV cache: K log2 V"
BITS = "recalled bits R (bits a row)"
_PANELS = {
    "delay": "by delay: fillers alone between (I = 0)",
    "interference": "by interference: pairs alone between (F = 0)",
}
_MISSING = "#d9d9d9"


def all_of(result: Recall, title: str) -> dict[str, "Figure"]:
    """Every picture that the result has something for, by name."""
    largest_load = None if result.cells is None else result.cells.largest_load
    drawn = {"recall": curves(result, title), "recall_answers": kinds(result.kinds, title, largest_load)}
    if result.cells is not None:
        drawn["recall_map"] = cells(result.cells, title)
    if result.bits is not None:
        drawn["recalled_bits"] = bits(result.bits, title)
    return drawn


def panel(name: str) -> str:
    """The title of the curve along the sweep of that name."""
    return _PANELS.get(name, f"by {name}")


def curves(result: Recall, title: str) -> "Figure":
    """Accuracy along each sweep, side by side."""
    drawn, panels = figure(len(result.curves))
    drawn.suptitle(title)
    for axes, (name, curve) in zip(panels, result.curves.items(), strict=True):
        counted = "first query" if curve.sweep.first_query else "all queries"
        points(axes, curve.at, curve.accuracy, f"{counted} of {len(curve.right_in_row)} rows, 95 %", 0)
        accuracy_axis(axes)
        sweep_axis(axes, curve.sweep.axis)
        _add_chance(axes, curve)
        mark_last_trained(axes, curve.at, curve.trained)
        axes.set_title(panel(name))
        legend(axes)
    return drawn


def sweep_axis(axes: "Axes", label: str) -> None:
    """In powers of two, but for per cent."""
    if is_linear(label):
        axes.set_xlabel(label)
        axes.set_xlim(0, 100)
        axes.grid(True, alpha=0.25)
    else:
        log2_axis(axes, label)


def _add_chance(axes: "Axes", curve: Curve) -> None:
    """What guessing gives: any value of the alphabet, and any pair of the row."""
    chance = np.full(len(curve.queries), curve.chance_of_value)
    axes.plot(curve.at, chance, color=GREY, linestyle=":", label=f"chance, 1 of {curve.values} values")
    pairs = {point.pairs for point in curve.sweep.points}
    of = f"{min(pairs)}" if len(pairs) == 1 else f"{min(pairs)} to {max(pairs)}"
    axes.plot(
        curve.at,
        curve.chance_of_row,
        color=GREY,
        linestyle="-.",
        label=f"chance, 1 of {of} in the row",
    )


def mark_last_trained(axes: "Axes", at: np.ndarray, trained: np.ndarray) -> None:
    """A dashed line behind the last point that training had, [points] each."""
    if trained.any() and not trained.all():
        last = np.flatnonzero(trained)[-1]
        if last + 1 < len(at):
            edge = np.sqrt(at[last] * at[last + 1])
            axes.axvline(
                edge, color=GREY, linestyle="--", linewidth=1, label="training ends (length or load)"
            )


def cells(result: Cells, title: str) -> "Figure":
    """The map: colour is accuracy, from 0 to 1 whatever was measured."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.patheffects import Normal, withStroke

    drawn, (axes,) = figure(height=4.8)
    axes.set_title(title)
    accuracy = np.ma.masked_invalid(result.accuracy)
    x, y = _edges(result.distances), _edges(result.pairs)
    axes.set_facecolor(_MISSING)
    coloured = axes.pcolormesh(x, y, accuracy, cmap="viridis", vmin=0, vmax=1)
    drawn.colorbar(coloured, ax=axes, label="accuracy", ticks=np.linspace(0, 1, 6))
    handles = []
    for level, colour, around in ((0.5, "white", "black"), (0.9, "black", "white")):
        # On any colour, and in the legend on white.
        outlined = [withStroke(linewidth=3, foreground=around), Normal()]
        if min(accuracy.shape) > 1 and accuracy.min() < level < accuracy.max():
            lines = axes.contour(result.distances, result.pairs, accuracy, [level], colors=colour)
            lines.set(path_effects=outlined)
            handles.append(Line2D([], [], color=colour, path_effects=outlined, label=f"accuracy {level:g}"))
    loads = np.geomspace(y[0], y[-1], 200)
    reach = np.interp(loads, result.pairs, result.reach)
    inside = reach >= x[0]
    label = f"rows of the training length, {result.training_length} tokens"
    handles += axes.plot(reach[inside], loads[inside], color=COLOURS[1], linestyle="--", label=label)
    edge, label = (
        _beyond(result.pairs, result.largest_load),
        f"largest load of training, {result.largest_load}",
    )
    handles.append(axes.axhline(edge, color=COLOURS[1], linestyle=(0, (1, 1)), linewidth=2, label=label))
    handles.append(Patch(color=_MISSING, label=f"no such row, or under {FEWEST_QUERIES} queries"))
    log2_axis(axes, "distance from value to query (tokens)")
    log2_axis(axes, PAIRS, of="y")
    axes.set_xlim(x[0], x[-1])
    axes.set_ylim(y[0], y[-1])
    axes.grid(False)
    legend(axes, handles)
    return drawn


def _edges(centres: np.ndarray) -> np.ndarray:
    """The borders of cells around centres [n], halfway between them on a logarithmic axis, [n + 1]."""
    exponents = np.log2(centres.astype(np.float64))
    if len(exponents) == 1:
        return 2 ** np.array([exponents[0] - 0.5, exponents[0] + 0.5])
    inner = (exponents[1:] + exponents[:-1]) / 2
    outer = 2 * exponents[0] - inner[0], 2 * exponents[-1] - inner[-1]
    return 2 ** np.concatenate([[outer[0]], inner, [outer[1]]])


def _beyond(loads: np.ndarray, largest: int) -> float:
    """The border above the cells of a load."""
    return float(_edges(loads)[np.searchsorted(loads, largest, side="right")])


def bits(result: RecalledBits, title: str) -> "Figure":
    """R(K) between what a cache of all pairs recalls and what memories with random keys do."""
    drawn, (axes,) = figure(height=4.8)
    axes.set_title(title)
    pairs = np.array([load.pairs for load in result.loads])
    points(axes, pairs, [load.bits for load in result.loads], "the model, 95 %", 0)
    add_references(axes, pairs, result.bits_of_value, result.reference)
    mark_last_trained(axes, pairs, np.array([load.trained for load in result.loads]))
    bits_axes(axes, result.bits_of_value)
    legend(axes)
    return drawn


def bits_axes(axes: "Axes", bits_of_value: float) -> None:
    """Bits against pairs, both logarithmic; below those of one value, the bits are linear down to 0.

    To be called when all lines are drawn.
    """
    from matplotlib.ticker import StrMethodFormatter

    log2_axis(axes, PAIRS)
    axes.set_yscale("symlog", base=2, linthresh=bits_of_value)
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.set_ylabel(BITS)
    axes.set_ylim(-0.12 * bits_of_value, 1.2 * axes.dataLim.ymax)  # markers stand whole within the edges


def add_references(axes: "Axes", pairs: np.ndarray, bits_of_value: float, reference: Reference) -> None:
    """The lines that R(K) is to be seen beside."""
    size = f"{reference.width} × {reference.width}"
    axes.plot(pairs, pairs * bits_of_value, color=GREY, linestyle="-.", label=CACHE)
    for (rule, estimates), style in zip(reference.bits.items(), ((0, (1, 1)), (0, (4, 2))), strict=True):
        values = [estimate.value for estimate in estimates]
        axes.plot(pairs, values, color=GREY, linestyle=style, label=f"{rule} memory, random keys, {size}")
    if pairs[0] <= reference.critical_load <= pairs[-1]:
        axes.axvline(
            reference.critical_load,
            color=GREY,
            linewidth=1,
            linestyle=":",
            label=f"K* = {reference.critical_load:.0f} of {size}",
        )


def kinds(result: AnswerKinds, title: str, largest_load: int | None = None) -> "Figure":
    """The share of each kind of answer, by the load; largest_load: of training."""
    drawn, (axes,) = figure()
    axes.set_title(title)
    for kind, label in enumerate(ANSWER_KINDS):
        if result.counts[:, kind].any():
            points(axes, result.pairs, [shares[kind] for shares in result.shares], label, kind)
    if largest_load is not None:
        axes.plot(result.pairs, 1 / result.pairs, color=GREY, linestyle="-.", label="chance of right, 1 of K")
        mark_last_trained(axes, result.pairs, result.pairs <= largest_load)
    log2_axis(axes, PAIRS)
    axes.set_ylim(-0.03, 1.03)
    axes.set_ylabel("share of answers")
    legend(axes)
    return drawn
