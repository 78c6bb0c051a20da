"""What an evaluation prints: each figure beside its interval, its count and its control, in 100 columns."""

import math
import sys
from collections.abc import Iterable
from typing import Any

from seqmodels.evaluation import report_memory, report_recall, report_text
from seqmodels.evaluation.intervention_effects import Effect
from seqmodels.evaluation.interventions import Interventions
from seqmodels.evaluation.memory import Memory
from seqmodels.evaluation.needle import Needle
from seqmodels.evaluation.ngram_hits import NgramHits
from seqmodels.evaluation.perplexity import Perplexity
from seqmodels.evaluation.positions import PositionCurve
from seqmodels.evaluation.recall import Recall
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
            case NgramHits():
                table += report_text.ngram_hits(result)
            case Needle():
                table += report_text.needle(result)
            case Recall():
                table += report_recall.rows(result)
            case Memory():
                table += report_memory.rows(result)
            case Interventions():
                table += _interventions(result)
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


def _interventions(result: Interventions) -> list[Row]:
    rows = f"n {result.rows}, K {result.pairs}, F {result.fillers}"
    head = ("interventions", "", "", f"{rows}; chance 1/{result.values}, 1/{result.pairs}")
    return [head, *(_effect(effect) for effect in result.all_effects)]


def _effect(effect: Effect) -> Row:
    value, low, high = (f"{number:+.3f}" for number in effect.change)
    shares = f"{effect.before.value:.3f} to {effect.after.value:.3f}"
    perfect = f"perfect {effect.perfect_before:.3f} to {effect.perfect:.3f}"
    if math.isnan(effect.perfect):
        perfect = "no change if unused"
    return f"  {effect.label}", value, f"{low} to {high}", f"{shares}; {perfect}"


def _figure(estimate: Estimate, digits: int) -> tuple[str, str]:
    return estimate.shown(digits)
