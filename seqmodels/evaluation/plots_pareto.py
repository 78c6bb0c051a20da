"""State against recall: which runs recall more with less, beside a cache that keeps what it has room for."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from seqmodels.evaluation import plots
from seqmodels.evaluation.comparison import ComparedRun, estimate, sweeps
from seqmodels.evaluation.plots_recall import BITS
from seqmodels.evaluation.statistics import Estimate, area_over_log2

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PAIR_TOKENS = 2
_STYLES = ("-.", ":", "--", (0, (5, 1, 1, 1, 1, 1)))  # of caches, one for each size


def pareto(runs: Sequence[ComparedRun]) -> "Figure | None":
    """Recall area at the training length, and capacity at the row that gave it, against bytes of state.

    None where no run has recall.
    """
    names = sweeps(runs)
    if not names:
        return None
    areas = {index: estimate(run, "recall", f"by_{names[0]}", "area") for index, run in enumerate(runs)}
    areas = {index: area for index, area in areas.items() if area is not None and np.isfinite(area.value)}
    measured = {
        index: run.suites["recall"]["recalled_bits"]
        for index, run in enumerate(runs)
        if run.suites.get("recall", {}).get("recalled_bits", {}).get("state_elements")
    }
    if not areas and not measured:
        return None
    drawn, panels = plots.figure(bool(areas) + bool(measured))
    if areas:
        _add_areas(panels[0], runs, areas, names[0])
    if measured:
        _add_capacities(panels[-1], runs, measured)
    return drawn


def _add_areas(axes: "Axes", runs: Sequence[ComparedRun], areas: dict[int, Estimate], name: str) -> None:
    for index, area in areas.items():
        plots.points(axes, np.array([runs[index].state_bytes]), [area], runs[index].label, index)
    caches = {runs[index].cache_bytes: runs[index].suites["recall"][f"by_{name}"] for index in areas}
    for order, (size, curve) in enumerate(sorted(caches.items())):
        at = np.array([point["at"] for point in curve["points"] if point["trained"]], np.float64)
        if curve["axis"].endswith("(tokens)"):
            # The pair and all behind it; what lies further back is gone.
            reached = [area_over_log2(at, at <= distance) for distance in at]
            axes.plot(
                (at + _PAIR_TOKENS) * size,
                reached,
                color=plots.GREY,
                linestyle=_STYLES[order % len(_STYLES)],
                label=f"KV cache of the last tokens, {size:,} bytes each",
            )
    plots.accuracy_axis(axes)
    axes.set_ylabel("recall area")
    _bytes_axis(axes, "state at the training length (bytes a row)")
    axes.set_title(f"recall area by {name}")
    plots.legend(axes)


def _add_capacities(axes: "Axes", runs: Sequence[ComparedRun], measured: dict[int, dict]) -> None:
    spans: dict[tuple[int, float], list[int]] = {}
    for index, bits in measured.items():
        run = runs[index]
        size = bits["state_elements"] * run.bytes_per_element
        plots.points(axes, np.array([size]), [Estimate(**bits["capacity"])], run.label, index)
        spans.setdefault((run.cache_bytes, bits["bits_of_value"]), []).extend(
            each["pairs"] for each in bits["by_pairs"]
        )
    for order, ((size, of_value), pairs) in enumerate(sorted(spans.items())):
        ends = np.array([min(pairs), max(pairs)])
        axes.plot(
            ends * _PAIR_TOKENS * size,
            ends * of_value,
            color=plots.GREY,
            linestyle=_STYLES[order % len(_STYLES)],
            label=f"KV cache of K pairs, {_PAIR_TOKENS * size:,} bytes each",
        )
    linear = min(of_value for _, of_value in spans)
    axes.set_yscale("symlog", base=2, linthresh=linear)
    axes.set_ylim(bottom=-0.12 * linear)  # a run that recalls nothing stands whole above the edge
    _bytes_axis(axes, "state after the row with the most recalled bits (bytes)")
    from matplotlib.ticker import StrMethodFormatter

    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.set_ylabel(f"capacity: most {BITS}")
    axes.set_title("capacity")
    plots.legend(axes)


def _bytes_axis(axes: "Axes", label: str) -> None:
    """In powers of two, with their prefixes."""
    from matplotlib.ticker import FuncFormatter

    plots.log2_axis(axes, label)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _binary(value)))


def _binary(value: float) -> str:
    for prefix, size in (("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10)):
        if value >= size:
            return f"{value / size:g}{prefix}"
    return f"{value:g}"
