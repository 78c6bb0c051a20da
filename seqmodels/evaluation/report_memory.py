"""What the memory suite prints: half-lives, what is felt and how far, where that disagrees, and states."""

import math

from seqmodels.evaluation.impulse_response import ImpulseResponse
from seqmodels.evaluation.memory import LayerMemory, Memory
from seqmodels.evaluation.statistics import Estimate

Row = tuple[str, str, str, str]
ALONG = {"gate": "", "written": ", written", "random": ", random"}


def rows(result: Memory) -> list[Row]:
    """(figure, value, 95 % interval, control and counts); lengths of time in tokens."""
    count = f"{len(result.rows.tokens)} rows of {result.rows.lags} tokens"
    table = [("memory", "", "", f"tokens; {count}; kinds {', '.join(result.rows.kinds)}")]
    for layer in result.layers:
        table += _half_lives(layer, result)
        table.append(_impulse(f"  L{layer.layer} impulse half-life", layer.response, _gates(layer)))
    table.append(_impulse("  impulse half-life", result.response, "last layer to embedding"))
    for name, field in result.fields.items():
        longest = result.longest[name]
        table.append((f"  reach by {name}", *_bounded(field, longest), _how(name, result)))
    finding = result.finding or "agree within a factor of 2"
    table.append(("  receptive fields", "differ" if result.finding else "agree", "", finding))
    for layer in result.layers:
        state = layer.state
        about = f"numbers, {state.bytes:,} bytes at L = {state.length}: {state.formula}"
        table.append((f"  L{layer.layer} state", f"{state.elements:,}", "", about))
    return table


def _half_lives(layer: LayerMemory, result: Memory) -> list[Row]:
    if not layer.half_lives:
        return [(f"  L{layer.layer} half-life", "none", "", f"{layer.mixer}: {layer.why_no_decay}")]
    table = []
    for name, lives in layer.half_lives.items():
        kinds = ", ".join(f"{kind} {_tokens(lives.median(kind).value)}" for kind in lives.kinds)
        beyond = lives.beyond(result.training_length)
        about = f"{layer.mixer}, median of {math.prod(lives.shape):,}: {kinds}; "
        about += f"{beyond.value:.0%} beyond {result.training_length}"
        table.append((f"  L{layer.layer} half-life{ALONG[name]}", *_shown(lives.median()), about))
    return table


def _gates(layer: LayerMemory) -> str:
    if layer.survival is None:
        return f"from lag {layer.response.start}"
    survives, _ = _bounded(layer.survival.half_life, layer.survival.lags[-1])
    return f"from lag {layer.response.start}; half of the state survives {survives}"


def _impulse(figure: str, response: ImpulseResponse, about: str) -> Row:
    return figure, *_bounded(response.half_life, response.norms.shape[1] - response.start - 1), about


def _how(name: str, result: Memory) -> str:
    if name == "behaviour":
        return f"horizon50, {result.behaviour.probe}"
    half, _ = _bounded(result.halves[name], result.longest[name])
    if name == "gradient":
        return f"90 % of the gradient; half within {half}"
    return f"a tenth of the change is beyond; half beyond {half}"


def _shown(estimate: Estimate) -> tuple[str, str]:
    value, low, high = (_tokens(number) for number in estimate)
    return value, f"{low} to {high}"


def _bounded(estimate: Estimate, longest: float) -> tuple[str, str]:
    value, low, high = (f"> {longest:g}" if number > longest else _tokens(number) for number in estimate)
    return value, f"{low} to {high}"


def _tokens(number: float) -> str:
    """Three digits, of which none is written behind the point from 100 on."""
    return f"{number:.3g}" if math.isinf(number) or number < 100 else f"{number:,.0f}"
