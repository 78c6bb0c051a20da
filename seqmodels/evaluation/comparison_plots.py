"""The curves of several runs in one picture each; a run without a curve is missing from its picture."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from seqmodels.evaluation import plots
from seqmodels.evaluation.comparison import ComparedRun
from seqmodels.evaluation.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LN2 = float(np.log(2.0))
_LOGGED = {
    "train/loss": "training loss (nats a token)",
    "eval/bits_per_byte": "validation (bits a byte)",
    "eval/recall_area": "recall area by delay",
}


def all_of(runs: Sequence[ComparedRun]) -> dict[str, "Figure"]:
    """The pictures that at least one run has a curve for, by name."""
    drawn = {"training": _training(runs), "recall": _recall(runs), "repeat": _repeat(runs)}
    drawn["positions"] = _positions(runs)
    return {name: picture for name, picture in drawn.items() if picture is not None}


def _training(runs: Sequence[ComparedRun]) -> "Figure | None":
    tags = [tag for tag in _LOGGED if any(tag in line for run in runs for line in run.lines)]
    if not tags:
        return None
    drawn, panels = plots.figure(len(tags))
    for axes, tag in zip(panels, tags, strict=True):
        for index, run in enumerate(runs):
            curve = [(line["tokens"], line[tag]) for line in run.lines if tag in line]
            if curve:
                plots.line(axes, *np.array(curve).T, run.label, index)
        plots.tokens_axis(axes)
        axes.set_ylabel(_LOGGED[tag])
        if tag == "eval/recall_area":
            axes.set_ylim(-0.03, 1.03)
        plots.legend(axes)
    return drawn


def _recall(runs: Sequence[ComparedRun]) -> "Figure | None":
    found = [(index, run) for index, run in enumerate(runs) if "recall" in run.suites]
    if not found:
        return None
    drawn, panels = plots.figure(2)
    for axes, name, title in zip(panels, ("by_delay", "by_interference"), plots.RECALL_PANELS, strict=True):
        curves = [(index, run, run.suites["recall"][name]["points"]) for index, run in found]
        for index, run, measured in curves:
            _add(axes, measured, "distance", "accuracy", run.label, index)
        # Once where the runs share them; the ledger says where they do not.
        shared = {
            tuple((p["distance"], p["chance_of_value"], p["chance_of_row"], p["trained"]) for p in measured)
            for _, _, measured in curves
        }
        for points in sorted(shared):
            distance, of_value, of_row, trained = np.array(points).T
            axes.plot(distance, of_value, color=plots.GREY, linestyle=":", label="chance, a value")
            axes.plot(distance, of_row, color=plots.GREY, linestyle="-.", label="chance, a pair of the row")
            plots.mark_last_trained(axes, distance, trained.astype(bool))
        plots.accuracy_axis(axes)
        plots.log2_axis(axes, plots.RECALL_DISTANCE)
        axes.set_title(title)
        plots.legend(axes)
    return drawn


def _repeat(runs: Sequence[ComparedRun]) -> "Figure | None":
    def add(axes: "Axes", run: ComparedRun, index: int) -> None:
        _add(axes, run.suites["repeat"]["by_distance"], "distance", "gain", run.label, index)

    drawn = _single(runs, "repeat", add, plots.REPEAT_DISTANCE, plots.REPEAT_GAIN)
    if drawn is not None:
        drawn.axes[0].axhline(0, color=plots.GREY, linestyle=":", label="no recall")
        plots.legend(drawn.axes[0])
    return drawn


def _positions(runs: Sequence[ComparedRun]) -> "Figure | None":
    def add(axes: "Axes", run: ComparedRun, index: int) -> None:
        measured = run.suites["positions"]["points"]
        middle = np.sqrt([point["first"] * point["last"] for point in measured])
        value, low, high = (
            np.array([point["nll"][name] for point in measured]) / _LN2 for name in Estimate._fields
        )
        plots.band(axes, middle, value, low, high, run.label, index)

    drawn = _single(runs, "positions", add, plots.POSITION, plots.NLL)
    if drawn is not None:
        lengths = {run.suites["positions"]["training_length"] for run in runs if "positions" in run.suites}
        for length in sorted(lengths):
            plots.mark_training_length(drawn.axes[0], length)
        plots.legend(drawn.axes[0])
    return drawn


def _single(
    runs: Sequence[ComparedRun],
    suite: str,
    add: Callable[["Axes", ComparedRun, int], None],
    x: str,
    y: str,
) -> "Figure | None":
    """The curve of each run that has the suite, in the run's colour; None where none has it."""
    if not any(suite in run.suites for run in runs):
        return None
    drawn, (axes,) = plots.figure()
    for index, run in enumerate(runs):
        if suite in run.suites:
            add(axes, run, index)
    plots.log2_axis(axes, x)
    axes.set_ylabel(y)
    return drawn


def _add(axes: "Axes", measured: list[dict], x: str, y: str, label: str, index: int) -> None:
    estimates = [Estimate(**point[y]) for point in measured]
    plots.points(axes, np.array([point[x] for point in measured]), estimates, label, index)
