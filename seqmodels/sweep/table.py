"""The tables of a sweep: every rate of every config, and what follows from them."""

import math
from collections.abc import Sequence

from seqmodels.evaluation.learning_rates import Rate, RateCurve

WIDTH = 100
LONGEST_LABEL = 24

Rows = list[list[str]]
"""Cells; the first row is the heading."""


def rates(curves: Sequence[RateCurve]) -> Rows:
    """A row a rate: median, least, most, and how many of the seeds solved the task."""
    rows = [["config", "learning rate", "median", "min", "max", *_solved_heading(curves[0])]]
    for curve in curves:
        for rate in curve.rates:
            mark = " *" if rate is curve.best else "  "
            figures = [_figure(x) for x in (rate.median, min(rate.values), max(rate.values))]
            rows.append(
                [curve.label, f"{rate.learning_rate:g}{mark}", *figures, *_solved(rate, interval=True)]
            )
    return rows


def choices(curves: Sequence[RateCurve]) -> Rows:
    """A row a config: the best rate, what it reaches, and the window around it."""
    rows = [["config", "best rate", "median", *_solved_heading(curves[0]), "window", "width"]]
    for curve in curves:
        best, window = curve.best, curve.window
        at_least = ">= " if window.open_below or window.open_above else ""
        rows.append(
            [
                curve.label,
                f"{best.learning_rate:g}",
                _figure(best.median),
                *_solved(best, interval=False),
                f"{window.low:g} to {window.high:g}",
                f"{at_least}{window.factor:.3g}x, {window.octaves:.1f} octaves",
            ]
        )
    return rows


def remarks(curves: Sequence[RateCurve]) -> list[str]:
    """What the tables mean, and what in them is to be doubted."""
    criterion = curves[0].criterion
    better = "lower" if criterion.solved is None else "higher"
    counted = "" if criterion.solved is None else f", or that solve the task (median >= {criterion.solved:g})"
    said = [
        f"* the best rate of a config: by the median over seeds of its {criterion.name} on validation rows "
        f"({better} is better).",
        f"window: rates side by side with the best whose median is within {criterion.tolerance:g} of it"
        f"{counted}; >=: it reaches the end of the grid.",
    ]
    if criterion.solved is not None:
        said.append("Brackets: Wilson's 95 % interval of the share of seeds that solve the task.")
    chances = sorted({curve.chance for curve in curves if curve.chance is not None})
    if chances:
        said.append(f"Guessing any value reaches {' or '.join(f'{chance:.3g}' for chance in chances)}.")
    for curve in curves:
        failed = sum(rate.failed for rate in curve.rates)
        if failed:
            said.append(f"{curve.label}: {failed} failed, counted as the worst value there is.")
        if len(curve.rates) > 1 and curve.best in (curve.rates[0], curve.rates[-1]):
            said.append(f"{curve.label}: the best rate is at the end of the grid; a wider one may do better.")
    return said


def as_text(rows: Rows) -> list[str]:
    """Aligned columns: the first to the left, and shortened where it is long, the others to the right."""
    rows = [[_short(label), *cells] for label, *cells in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def as_markdown(rows: Rows) -> list[str]:
    """A table of Markdown."""
    heading, *body = (" | ".join(row) for row in rows)
    rule = " | ".join(["---", *["---:"] * (len(rows[0]) - 1)])
    return [f"| {line} |" for line in (heading, rule, *body)]


def _short(label: str) -> str:
    """A label that leaves room for the figures."""
    return label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"


def _solved_heading(curve: RateCurve) -> list[str]:
    return [] if curve.criterion.solved is None else [f"P(solve >= {curve.criterion.solved:g})"]


def _solved(rate: Rate, *, interval: bool) -> list[str]:
    if rate.solving is None:
        return []
    count = f"{rate.solved} of {len(rate.values)}"
    return [f"{count} ({rate.solving.low:.2f} to {rate.solving.high:.2f})" if interval else count]


def _figure(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else "failed"
