"""The tables of a comparison, as cells: the figures, the paired differences, the ledger."""

import math
import sys
from collections.abc import Sequence

from seqmodels.evaluation.comparison import ComparedRun, estimate, logged, restored, sweeps
from seqmodels.evaluation.comparison_ledger import Entry, verdict
from seqmodels.evaluation.comparison_paired import Difference
from seqmodels.evaluation.statistics import UNKNOWN, Estimate

Table = list[list[str]]
"""The first line is the heading."""

NONE = "-"
WIDTH, ABREAST, _GAP = 100, 4, 2
_CAPACITY = "eval/recall_capacity_bits"
_DENSITY = "eval/recall_capacity_bits_per_state_element"


def figures_table(runs: Sequence[ComparedRun]) -> Table:
    """A heading, and a line a run; figures that no run has are left out."""
    header = ["run", "mixers", "step", "parameters", "state bytes", "FLOPs/token", "tokens/s", "bits/byte"]
    curves = sweeps(runs) or ["delay", "interference"]
    header += [f"recall area, {name}" for name in curves] + [f"horizon50, {name}" for name in curves]
    header += ["capacity (bits)", "bits per state element"]
    lines = [
        [
            run.label,
            run.mixers,
            f"{run.step:,}",
            f"{run.parameters:,}",
            f"{run.state_bytes:,}",
            f"{run.flops_per_token:,.0f}",
            NONE if run.tokens_per_second is None else f"{run.tokens_per_second:,.0f}",
            _figure(run, "eval/bits_per_byte", "perplexity", "bits_per_byte"),
            *(_figure(run, _area_tag(name, curves), "recall", f"by_{name}", "area") for name in curves),
            *(_horizon(run, f"by_{name}") for name in curves),
            _figure(run, _CAPACITY, "recall", "recalled_bits", "capacity", digits=1),
            _figure(run, _DENSITY, "recall", "recalled_bits", "capacity_per_state_element", digits=5),
        ]
        for run in runs
    ]
    for name, values in _of_other_suites(runs):
        header.append(name)
        for line, value in zip(lines, values, strict=True):
            line.append(NONE if value is None else _shown(value))
    kept = [column for column in range(len(header)) if any(line[column] != NONE for line in lines)]
    return [[line[column] for column in kept] for line in [header, *lines]]


def paired_table(first: ComparedRun, found: Sequence[Difference]) -> Table:
    """A heading, and a line a figure: what each run has more of than the first; empty without any."""
    names = list(dict.fromkeys(name for each in found for name in each.figures))
    if not found:
        return []

    def cell(each: Difference, name: str) -> str:
        if name not in each.figures:
            return each.obstacle or NONE
        value, low, high = each.figures[name]
        return f"{value:+.3f} ({low:+.3f} to {high:+.3f})"

    header = [f"more than {first.label}", *(each.label for each in found)]
    return [header] + [[name, *(cell(each, name) for each in found)] for name in names or ["recall"]]


def ledger_table(runs: Sequence[ComparedRun], entries: Sequence[Entry]) -> Table:
    """A heading, and a line for each thing that should be equal."""
    header = ["should be equal", *(run.label for run in runs), ""]
    return [header] + [[entry.item, *entry.values, "" if entry.fair else "DIFFERS"] for entry in entries]


def show(runs: Sequence[ComparedRun], entries: Sequence[Entry], found: Sequence[Difference]) -> None:
    """Prints the figures and the paired differences, a column a run, and what is not equal."""
    print()
    _print([list(line) for line in zip(*figures_table(runs), strict=True)])
    if found:
        print("Paired, on the same rows:")
        _print(paired_table(runs[0], found))
    differing = [[entry.item, *entry.values] for entry in entries if not entry.fair]
    if differing:
        _print([["differs", *(run.label for run in runs)], *differing])
    _console().print(verdict(entries))


def _print(table: Table) -> None:
    """In blocks of as many runs as fit; an interval stands below its figure."""
    from rich.table import Table as Drawn

    for begin in range(1, len(table[0]), ABREAST):
        block = [[line[0], *line[begin : begin + ABREAST]] for line in table]
        drawn = Drawn(box=None, padding=(0, _GAP, 0, 0), show_header=False)
        names = max(len(line[0]) for line in block)
        drawn.add_column(max_width=names)
        for _ in block[0][1:]:
            room = (WIDTH - min(names, 28)) // (len(block[0]) - 1) - _GAP
            drawn.add_column(max_width=room, overflow="fold")
        for line in block:
            drawn.add_row(line[0], *(cell.replace(" (", "\n(") for cell in line[1:]))
        _console().print(drawn)
        print()


def _console():
    from rich.console import Console

    return Console(file=sys.stdout, width=WIDTH, highlight=False, markup=False)


def _area_tag(name: str, curves: Sequence[str]) -> str:
    """The first curve's tag bears no name."""
    return "eval/recall_area" if name == curves[0] else f"eval/recall_area_{name}"


def _figure(run: ComparedRun, tag: str, suite: str, *path: str, digits: int = 3) -> str:
    """With its interval where eval.py measured it, else as logged during training."""
    found = estimate(run, suite, *path)
    if found is not None and math.isfinite(found.value):
        return _shown(found, digits)
    value = logged(run, tag)
    return NONE if value is None else f"{value:.{digits}f} in training"


def _shown(found: Estimate, digits: int = 3) -> str:
    value, interval = found.shown(digits)
    return f"{value} ({interval})"


def _horizon(run: ComparedRun, curve: str) -> str:
    found = estimate(run, "recall", curve, "horizon50")
    if found is None:
        return NONE
    distances = [point["at"] for point in run.suites["recall"][curve]["points"]]

    def shown(value: float) -> str:
        if value == 0:
            return f"< {distances[0]}"
        return f"> {distances[-1]}" if value > distances[-1] else f"{value:.1f}"

    known = not (math.isnan(found.low) or math.isnan(found.high))
    interval = f"{shown(found.low)} to {shown(found.high)}" if known else UNKNOWN
    return f"{shown(found.value)} ({interval})"


def _of_other_suites(runs: Sequence[ComparedRun]) -> list[tuple[str, list[Estimate | None]]]:
    """One figure of each: at the longest length or distance within training that all runs have."""
    found = []
    for title, suite, points, at, figure in (
        ("n-gram gain at {} (bits)", "ngram_hits", "by_distance", "first", "gain"),
        ("needle first of 16 at {}", "needle", "by_length", "length", "first"),
    ):
        tables = [
            {
                point[at]: restored(point[figure])
                for point in run.suites[suite][points]
                if point.get("last", point[at]) <= run.suites[suite]["training_length"]
            }
            for run in runs
            if suite in run.suites
        ]
        shared = set.intersection(*map(set, tables)) if tables else set()
        if shared:
            values = iter(tables)
            of_runs = [next(values)[max(shared)] if suite in run.suites else None for run in runs]
            found.append((title.format(max(shared)), of_runs))
    swapped = [estimate(run, "interventions", "effects", "value_swap", "after") for run in runs]
    return [*found, ("follows a swapped value", swapped)]
