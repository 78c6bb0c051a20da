"""The curves of several runs in one picture each; a run without a curve is missing from its picture."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from seqmodels.evaluation import comparison_sweep, plots, plots_pareto, plots_recall, plots_sweep
from seqmodels.evaluation.comparison import ComparedRun, sweeps
from seqmodels.evaluation.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LN2 = float(np.log(2.0))
_LOGGED = {
    "train/loss": "training loss (nats a token)",
    "eval/bits_per_byte": "validation (bits a byte)",
    "eval/recall_area": "recall area",
}


def all_of(runs: Sequence[ComparedRun]) -> dict[str, "Figure"]:
    """The pictures that at least one run has a curve for, by name."""
    drawn = {"training": _training(runs), "recall": _recall(runs), "recalled_bits": _recalled_bits(runs)}
    drawn |= {"pareto": plots_pareto.pareto(runs), "repeat": _repeat(runs), "positions": _positions(runs)}
    drawn["learning_rates"] = _learning_rates(runs)
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
    names = sweeps(runs)
    if not names:
        return None
    drawn, panels = plots.figure(len(names))
    for axes, name in zip(panels, names, strict=True):
        curves = [
            (index, run, run.suites["recall"][f"by_{name}"])
            for index, run in enumerate(runs)
            if f"by_{name}" in run.suites.get("recall", {})
        ]
        for index, run, curve in curves:
            _add(axes, curve["points"], "at", "accuracy", run.label, index)
        # Once where the runs share them; the ledger says where they do not.
        shared = {
            tuple((p["at"], p["chance_of_value"], p["chance_of_row"], p["trained"]) for p in curve["points"])
            for _, _, curve in curves
        }
        for points in sorted(shared):
            at, of_value, of_row, trained = np.array(points).T
            axes.plot(at, of_value, color=plots.GREY, linestyle=":", label="chance, a value")
            axes.plot(at, of_row, color=plots.GREY, linestyle="-.", label="chance, a pair of the row")
            plots_recall.mark_last_trained(axes, at, trained.astype(bool))
        plots.accuracy_axis(axes)
        plots_recall.sweep_axis(axes, curves[0][2]["axis"])
        axes.set_title(plots_recall.panel(name))
        plots.legend(axes)
    return drawn


def _recalled_bits(runs: Sequence[ComparedRun]) -> "Figure | None":
    found = [
        (index, run, run.suites["recall"]["recalled_bits"])
        for index, run in enumerate(runs)
        if "recalled_bits" in run.suites.get("recall", {})
    ]
    if not found:
        return None
    drawn, (axes,) = plots.figure(height=4.8)
    for index, run, measured in found:
        elements = measured["state_elements"]
        label = run.label if elements is None else f"{run.label}, {elements:,} state elements"
        _add(axes, measured["by_pairs"], "pairs", "bits", label, index)
    shared = {
        tuple((p["pairs"], p["most"], p["trained"]) for p in measured["by_pairs"]) for _, _, measured in found
    }
    for points in sorted(shared):
        pairs, most, trained = np.array(points).T
        axes.plot(pairs, most, color=plots.GREY, linestyle="-.", label=plots_recall.CACHE)
        plots_recall.mark_last_trained(axes, pairs, trained.astype(bool))
    plots_recall.bits_axes(axes, min(measured["bits_of_value"] for _, _, measured in found))
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


def _learning_rates(runs: Sequence[ComparedRun]) -> "Figure | None":
    curves = comparison_sweep.curves(run.sweep for run in runs)
    if not curves:
        return None
    return plots_sweep.learning_rates(curves, "after the last update of each member")


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
