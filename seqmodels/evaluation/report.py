"""What an evaluation prints: each figure beside its interval, its count and its control, in 100 columns."""

import math
import sys
from collections.abc import Iterable
from typing import Any

from seqmodels.evaluation.perplexity import Perplexity
from seqmodels.evaluation.positions import PositionCurve
from seqmodels.evaluation.recall import Curve, Recall
from seqmodels.evaluation.repeat import Repeat
from seqmodels.evaluation.statistics import Estimate

WIDTH = 100
Row = tuple[str, str, str, str]


def rows(results: dict[str, Any], byte_models: list[float] | None) -> list[Row]:
    """(figure, value, 95 % interval, control and counts) of all suites, in their order."""
    table: list[Row] = []
    for result in results.values():
        match result:
            case Perplexity():
                table += _perplexity(result, byte_models)
            case PositionCurve():
                table += _positions(result)
            case Repeat():
                table += _repeat(result)
            case Recall():
                table += _recall("delay", result.delay)
                table += _recall("interference", result.interference)
    return table


def show(title: str, table: Iterable[Row]) -> None:
    """Prints the table."""
    from rich.console import Console
    from rich.table import Table

    drawn = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), width=WIDTH)
    for name, justify in (("figure", "left"), ("value", "right"), ("95 % interval", "left")):
        drawn.add_column(name, justify=justify, no_wrap=True)
    drawn.add_column("control, protocol, counts")
    for row in table:
        drawn.add_row(*row)
    Console(file=sys.stdout, width=WIDTH, highlight=False, markup=False).print(drawn)


def _perplexity(result: Perplexity, byte_models: list[float] | None) -> list[Row]:
    start = "with" if "scored" in result.first_token else "without"
    table = [
        (
            "bits per byte",
            *_figure(result.bits_per_byte, 4),
            f"{result.protocol}, {result.dtype}, {start} start token",
        ),
        (
            "perplexity",
            *_figure(result.perplexity, 3),
            f"a token; {result.tokens_scored:,} in {result.documents:,} documents",
        ),
    ]
    if byte_models is not None:
        table += [
            (
                f"  order-{order} byte model",
                f"{bits:.4f}",
                "",
                f"bits per byte of the same {result.bytes_scored:,} bytes",
            )
            for order, bits in enumerate(byte_models)
        ]
    return table


def _positions(curve: PositionCurve) -> list[Row]:
    trained = int((curve.last <= curve.training_length).sum()) - 1
    bins = {0: "first", max(trained, 0): "last trained", len(curve.nll) - 1: "last"}
    return [
        (
            f"loss at {_span(curve, index)}",
            *_figure(
                Estimate(curve.nll[index], curve.low[index], curve.high[index]).scaled(1 / math.log(2)), 3
            ),
            f"bits a token, {name} positions; {curve.documents} documents",
        )
        for index, name in sorted(bins.items())
    ]


def _span(curve: PositionCurve, index: int) -> str:
    first, last = curve.first[index], curve.last[index]
    return f"{first}" if first == last else f"{first}-{last}"


def _repeat(result: Repeat) -> list[Row]:
    return [
        (
            f"repeat gain at {distance}",
            *_figure(gain, 3),
            f"bits a token; right {accuracy.value:.3f}, control {control.value:.3f}; n {result.passages}",
        )
        for distance, gain, accuracy, control in zip(
            result.distances, result.gain, result.accuracy, result.control_accuracy, strict=True
        )
    ]


def _recall(name: str, curve: Curve) -> list[Row]:
    horizon = curve.horizon50
    trained = f"over the {int(curve.trained.sum())} distances that training had"
    table = [
        (f"recall area by {name}", *_figure(curve.area, 3), trained),
        (
            f"horizon50 by {name}",
            _distance(horizon.value, curve),
            f"{_distance(horizon.low, curve)} to {_distance(horizon.high, curve)}",
            "tokens until accuracy falls through 1/2",
        ),
    ]
    for point, accuracy, queries, trained in zip(
        curve.sweep.points, curve.accuracy, curve.queries, curve.trained, strict=True
    ):
        counts = f"chance 1/{curve.values}, 1/{point.pairs}; n {queries}"
        beyond = "" if trained else "; beyond training"
        table.append((f"  {_knob(name, point)}", *_figure(accuracy, 3), counts + beyond))
    return table


def _knob(name: str, point) -> str:
    knob = f"F {point.settings['fillers']}" if name == "delay" else f"I {point.settings['interference']}"
    return f"{knob}, K {point.pairs}, d {point.at}"


def _distance(value: float, curve: Curve) -> str:
    if math.isinf(value):
        return f"> {curve.distance[-1]}"
    return f"< {curve.distance[0]}" if value == 0 else f"{value:.1f}"


def _figure(estimate: Estimate, digits: int) -> tuple[str, str]:
    value, low, high = (f"{number:.{digits}f}" for number in estimate)
    return value, f"{low} to {high}"
