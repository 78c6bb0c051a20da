"""What the recall suite prints: each figure beside its interval, its chance and its count."""

import math

from seqmodels.data.tasks.task import Point
from seqmodels.evaluation.answer_kinds import AnswerKinds
from seqmodels.evaluation.recall import Recall
from seqmodels.evaluation.recall_cells import Cells
from seqmodels.evaluation.recall_curve import Curve
from seqmodels.evaluation.recalled_bits import RecalledBits

Row = tuple[str, str, str, str]


def rows(result: Recall) -> list[Row]:
    """(figure, value, 95 % interval, control and counts)."""
    table = [row for name, curve in result.curves.items() for row in _curve(name, curve)]
    if result.cells is not None:
        table.append(_cells(result.cells))
    if result.bits is not None:
        table += _bits(result.bits)
    return table + _kinds(result.kinds)


def _curve(name: str, curve: Curve) -> list[Row]:
    horizon = curve.horizon50
    table = [
        (
            f"recall area by {name}",
            *curve.area.shown(3),
            f"over the {int(curve.trained.sum())} points that training had",
        ),
        (
            f"horizon50 by {name}",
            _at(horizon.value, curve),
            f"{_at(horizon.low, curve)} to {_at(horizon.high, curve)}",
            f"{_unit(curve)} until accuracy falls through 1/2",
        ),
    ]
    for point, accuracy, queries, trained in zip(
        curve.sweep.points, curve.accuracy, curve.queries, curve.trained, strict=True
    ):
        counts = f"chance 1/{curve.values}, 1/{point.pairs}; n {queries}"
        beyond = "" if trained else "; untrained"
        table.append((f"  {_knob(curve, point)}", *accuracy.shown(3), counts + beyond))
    return table


def _unit(curve: Curve) -> str:
    """What the axis of a sweep counts in: what stands in its brackets, if it has any."""
    what, _, unit = curve.sweep.axis.partition(" (")
    return unit.rstrip(")") or what


def _knob(curve: Curve, point: Point) -> str:
    """The settings of the house task by their letters, of another task where the point stands."""
    letters = {"delay": ("F", "fillers"), "interference": ("I", "interference")}
    letter, setting = letters.get(curve.sweep.name, ("", ""))
    if setting in point.settings:
        return f"{letter} {point.settings[setting]}, K {point.settings['pairs']}, d {point.at}"
    return f"{curve.sweep.name} {point.at:g}"


def _at(value: float, curve: Curve) -> str:
    if math.isinf(value):
        return f"> {curve.at[-1]:g}"
    return f"< {curve.at[0]:g}" if value == 0 else f"{value:.1f}"


def _cells(cells: Cells) -> Row:
    """How much of the map is recalled for sure."""
    measured = list(zip(*cells.queries.nonzero(), strict=True))
    above = sum(cells.estimate(load, at).low > 0.5 for load, at in measured)
    below = sum(cells.estimate(load, at).high < 0.5 for load, at in measured)
    spans = f"d {cells.distances[0]} to {cells.distances[-1]}, K {cells.pairs[0]} to {cells.pairs[-1]}"
    between = f"{above} to {len(measured) - below}"
    estimate = int((cells.right * 2 >= cells.queries)[cells.queries > 0].sum())
    return (
        f"cells above 1/2, of {len(measured)}",
        f"{estimate}",
        between,
        f"{spans}; n {cells.queries.max()} each",
    )


def _bits(bits: RecalledBits) -> list[Row]:
    size = f"{bits.reference.width} × {bits.reference.width}"
    capacity = f"bits a row, at K {bits.best.pairs}; n {bits.best.queries} a load"
    table = [("recall capacity", *bits.capacity.shown(1), capacity)]
    if bits.capacity_per_element is not None:
        density = bits.capacity_per_element.scaled(1000).shown(2)
        elements = f"bits; the state has {bits.state_elements:,}"
        table.append(("  per 1,000 state elements", *density, elements))
    critical = f"{size}, K* {bits.reference.critical_load:,.0f}"
    table.append(("recalled bits by load", "", "", f"random-key memories: {critical}"))
    for index, load in enumerate(bits.loads):
        most = f"of {load.pairs * bits.bits_of_value:.0f}"
        references = (f"{rule} {values[index].value:.0f}" for rule, values in bits.reference.bits.items())
        beyond = "" if load.trained else "; untrained"
        control = f"{most}; {', '.join(references)}{beyond}"
        table.append((f"  K {load.pairs}", *load.bits.shown(1), control))
    return table


def _kinds(kinds: AnswerKinds) -> list[Row]:
    table = []
    if kinds.stale is not None:
        about = f"of {kinds.rebound:,} whose key was written again"
        table.append(("stale answers", *kinds.stale.shown(3), about))
    for load, pairs in enumerate(kinds.pairs):
        _, _, another, absent, none = kinds.shares[load]
        others = f"not in row {absent.value:.3f}, no value {none.value:.3f}"
        name = f"binding errors, K {pairs}"
        table.append((name, *another.shown(3), f"{others}; n {kinds.counts[load].sum()}"))
    return table
