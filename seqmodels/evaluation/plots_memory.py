"""The picture of a model's memory: half-lives beside what behaviour reaches, what survives, what is felt."""

from typing import TYPE_CHECKING

import numpy as np

from seqmodels.evaluation import plots
from seqmodels.evaluation.memory import Memory
from seqmodels.evaluation.memory_sweep import principal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Half-lives beyond these stand in the outermost bins.
SHORTEST, LONGEST = 1 / 4, 2**17
CACHES = "no layer has a decay: caches"
FIELD_LINES = {"gradient": "-", "replacement": "-.", "behaviour": ":"}


def memory(result: Memory, title: str) -> "Figure":
    """Histogram of half-lives, survival of the state, impulse response with the three receptive fields."""
    drawn, (lives, survival, response) = plots.figure(3, width=5.6, height=4.8)
    drawn.suptitle(title)
    _half_lives(lives, result)
    _survival(survival, result)
    _response(response, result)
    for axes in (lives, survival, response):
        plots.legend(axes)
    return drawn


def _half_lives(axes: "Axes", result: Memory) -> None:
    axes.set_title("half-lives of the state")
    units = [(layer, principal(layer.half_lives).tokens()) for layer in result.layers if layer.half_lives]
    finite = np.concatenate([tokens[np.isfinite(tokens)] for _, tokens in units] or [np.zeros(0)])
    finite = np.clip(finite, SHORTEST, LONGEST)
    marks = [result.training_length, *_behaviour_marks(result)]
    low = np.floor(np.log2(min([*finite, *marks])))
    high = np.ceil(np.log2(max([*finite, *marks]))) + 1
    edges = 2.0 ** np.arange(low, high + 0.5, 0.5)
    parts = [np.clip(tokens[np.isfinite(tokens)], SHORTEST, LONGEST) for _, tokens in units]
    names = [_layer_name(layer, tokens) for layer, tokens in units]
    colours = [plots.COLOURS[index % len(plots.COLOURS)] for index in range(len(parts))]
    if len(finite):
        axes.hist(parts, bins=edges, stacked=True, color=colours, label=names)
    else:
        _say(axes, "no state fades" if units else CACHES)
    plots.log2_axis(axes, "half-life (tokens)")
    axes.set_axisbelow(True)
    axes.set_ylabel("heads, channels or numbers of the state")
    axes.yaxis.get_major_locator().set_params(integer=True)
    plots.mark_training_length(axes, result.training_length)
    for value in _behaviour_marks(result):
        beyond = ">" if result.behaviour.horizon.value > result.behaviour.longest else "="
        axes.axvline(value, color="black", linestyle=":", label=f"recall's horizon50 {beyond} {value:.0f}")


def _say(axes: "Axes", why: str) -> None:
    """Why the axes hold no curve, above the middle, where a line may stand."""
    axes.text(0.5, 0.6, why, transform=axes.transAxes, ha="center", color=plots.GREY)


def _behaviour_marks(result: Memory) -> list[float]:
    if result.behaviour is None:
        return []
    value = min(result.behaviour.horizon.value, result.behaviour.longest)
    return [value] if value > 0 else []


def _layer_name(layer, tokens: np.ndarray) -> str:
    name = f"L{layer.layer} {layer.mixer}"
    never = int(np.isinf(tokens).sum())
    return f"{name} ({never} of {len(tokens)} never)" if never else name


def _survival(axes: "Axes", result: Memory) -> None:
    axes.set_title("what is left of a state")
    fading = [layer for layer in result.layers if layer.survival is not None]
    for index, layer in enumerate(fading):
        lags, left = layer.survival.lags[1:], layer.survival.left[1:]
        low, high = np.percentile(layer.survival.samples[:, 1:], [2.5, 97.5], axis=0)
        plots.band(axes, lags, left, low, high, f"L{layer.layer} {layer.mixer}", index)
    if not fading:
        _say(axes, CACHES)
    axes.axhline(0.5, color=plots.GREY, linestyle=":", label="half")
    axes.set_ylim(-0.03, 1.03)
    axes.set_ylabel("share left, mean over the layer")
    plots.log2_axis(axes, "lag (tokens)")
    axes.set_xlim(0.9, max(2.0, 1.1 * max(result.rows.lags, result.training_length)))
    plots.mark_training_length(axes, result.training_length)


def _response(axes: "Axes", result: Memory) -> None:
    axes.set_title("what is felt of a token, and how far recall goes")
    response = result.response
    shown = response.bins >= 1
    scale = response.curve[shown][0] or 1.0
    low, high = (bound[shown] / scale for bound in np.percentile(response.samples, [2.5, 97.5], axis=0))
    plots.band(axes, response.lags[shown], response.curve[shown] / scale, low, high, "output to embedding", 0)
    axes.set_yscale("log")
    axes.set_ylabel("impulse response (lag 1 = 1)")
    plots.log2_axis(axes, "lag or distance (tokens)")
    for index, (name, field) in enumerate(result.fields.items(), start=1):
        longest = result.longest[name]
        value = min(field.value, longest)
        beyond = "> " if field.value > longest else ""
        axes.axvline(
            max(value, 0.75),
            color=plots.COLOURS[index],
            linestyle=FIELD_LINES[name],
            label=f"reach by {name}: {beyond}{value:.3g}",
        )
    plots.mark_training_length(axes, result.training_length)
