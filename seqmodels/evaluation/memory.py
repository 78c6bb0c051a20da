"""The memory of a trained model: how fast each layer forgets, what it feels of a token some way back, how far
the prediction depends on its tokens, and how large the state is.

Nothing is trained, and nothing is asked that the model was not trained for: rows of its own task, or windows
of its own text, go through the unrolled layers, whose mixers say by what factors their states fade.
"""

import dataclasses
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np

from seqmodels.evaluation import memory_rows
from seqmodels.evaluation.half_lives import HalfLives, Survival, half_life
from seqmodels.evaluation.impulse_response import ImpulseResponse, by_lag
from seqmodels.evaluation.memory_sweep import principal, sweep
from seqmodels.evaluation.recall import Recall
from seqmodels.evaluation.receptive_field import Behaviour, Replacement, disagreement, replacement
from seqmodels.evaluation.repeat import Repeat
from seqmodels.evaluation.state_sizes import StateSize, state_size
from seqmodels.evaluation.statistics import Estimate

REACH_SHARE = 0.9


@dataclasses.dataclass(frozen=True)
class LayerMemory:
    """One layer. half_lives: by name of the log-decay, empty where nothing fades; then survival is None.
    response: of the mixer's output to its input.
    """

    layer: int
    mixer: str
    half_lives: dict[str, HalfLives]
    survival: Survival | None
    response: ImpulseResponse
    state: StateSize

    @property
    def why_no_decay(self) -> str:
        return "no decay: cache" if self.state.grows else "no decay reported"

    def summary(self, length: int) -> dict:
        decays = {name: lives.summary(length) for name, lives in self.half_lives.items()}
        return {
            "layer": self.layer,
            "mixer": self.mixer,
            "decay": decays or self.why_no_decay,
            **({} if self.survival is None else {"survival": self.survival.summary()}),
            "impulse_response": self.response.summary(),
            "state": self.state.summary(),
        }


@dataclasses.dataclass(frozen=True)
class Memory:
    """What was measured on `rows`. response: of the last layer's output to the embedded tokens. behaviour:
    None where no recall was measured beside it.
    """

    layers: list[LayerMemory]
    response: ImpulseResponse
    replacement: Replacement
    behaviour: Behaviour | None
    rows: memory_rows.MemoryRows
    training_length: int

    @cached_property
    def fields(self) -> dict[str, Estimate]:
        """The receptive field in tokens, by the way that it was measured."""
        fields = self._reach(REACH_SHARE)
        return fields if self.behaviour is None else {**fields, "behaviour": self.behaviour.horizon}

    @cached_property
    def halves(self) -> dict[str, Estimate]:
        """The same for half of the gradient, and half of the change by replacement."""
        return self._reach(0.5)

    def _reach(self, share):
        return {"gradient": self.response.reach(share), "replacement": self.replacement.reach(share)}

    @property
    def longest(self) -> dict[str, float]:
        """Up to what distance each could be measured."""
        longest = {
            "gradient": float(self.rows.lags - 1),
            "replacement": float(self.replacement.distances[-1]),
        }
        return longest if self.behaviour is None else {**longest, "behaviour": self.behaviour.longest}

    @property
    def finding(self) -> str | None:
        """What to say where the receptive fields disagree."""
        return disagreement({name: field.value for name, field in self.fields.items()}, self.longest)

    def units(self) -> np.ndarray:
        """The half-lives of all units of all layers whose state fades."""
        found = [principal(layer.half_lives).tokens() for layer in self.layers if layer.half_lives]
        return np.concatenate(found) if found else np.zeros(0)

    def scalars(self) -> dict[str, float]:
        """By tag; a reach beyond what was measured is given as the longest distance, a half-life without end
        is left out.
        """
        units = self.units()
        figures = {"eval/memory_impulse_half_life": self.response.half_life.value}
        figures |= {
            f"eval/memory_reach_{name}": min(field.value, self.longest[name])
            for name, field in self.fields.items()
        }
        if len(units):
            figures["eval/memory_half_life"] = float(half_life(np.median(-np.log(2.0) / units)))
            figures["eval/memory_beyond_training"] = float((units > self.training_length).mean())
        return {tag: value for tag, value in figures.items() if np.isfinite(value)}

    def summary(self) -> dict:
        return {
            "rows": {"count": len(self.rows.tokens), "tokens": self.rows.lags, **self.rows.about},
            "training_length": self.training_length,
            "layers": [layer.summary(self.training_length) for layer in self.layers],
            "impulse_response": self.response.summary(),
            "receptive_field": {
                **{name: field._asdict() for name, field in self.fields.items()},
                "measured_up_to": self.longest,
                **{f"{name}_half": half._asdict() for name, half in self.halves.items()},
                "probe": None if self.behaviour is None else self.behaviour.probe,
                "finding": self.finding,
            },
            "replacement": self.replacement.summary(),
        }

    def document(self) -> dict[str, Any]:
        """The summary with the half-life of every unit, for memory.json."""
        units = [
            {name: lives.every_unit() for name, lives in layer.half_lives.items()} for layer in self.layers
        ]
        return {**self.summary(), "half_lives_of_units": units}


def measure(
    scorer,
    data,
    *,
    training_length: int,
    longest: int,
    batch_size: int,
    rows: int = 64,
    split: str = "test",
    behaviour: Behaviour | None = None,
) -> Memory | None:
    """On rows of a task, or on windows of the validation text; None where the text is too short.

    scorer: a ModelScorer, whose model is unrolled. longest: tokens in the longest row. behaviour: what recall
    of the same model was measured to be (`behaviour_of`).
    """
    if data.kind == "recall":
        chosen = memory_rows.of_task(
            data, rows=rows, split=split, training_length=training_length, longest=longest
        )
    else:
        chosen = memory_rows.of_text(data.validation, data.tokenizer, rows=rows, longest=longest)
    if chosen is None:
        return None
    model, length = scorer.model, chosen.tokens.shape[1]
    traced = sweep(model, chosen, batch_size)
    layers = []
    for number, of_layer in enumerate(traced.layers):
        mixer = model.layers.block(number).mixer
        size = state_size(mixer, length, jnp.dtype(model.dtype))
        lives = {
            name: HalfLives(sums, traced.counts, chosen.kinds, of_layer.shapes[name])
            for name, sums in of_layer.sums.items()
        }
        response = by_lag(of_layer.response, chosen.last, chosen.lags)
        layers.append(
            LayerMemory(
                layer=number,
                mixer=type(mixer).__name__,
                half_lives=lives,
                survival=Survival(of_layer.survival, of_layer.counts) if lives else None,
                response=ImpulseResponse(response, start=1 + size.window),
                state=size,
            )
        )
    return Memory(
        layers=layers,
        response=ImpulseResponse(by_lag(traced.response, chosen.last, chosen.lags), start=1),
        replacement=replacement(scorer, chosen, batch_size),
        behaviour=behaviour,
        rows=chosen,
        training_length=training_length,
    )


def behaviour_of(results: dict[str, Any]) -> Behaviour | None:
    """How far recall goes by what other evaluators found: the recall suite, along the first sweep that counts
    tokens, else the repeat probe.
    """
    for result in results.values():
        match result:
            case Recall():
                for name, curve in result.curves.items():
                    if "(tokens)" in curve.sweep.axis:
                        probe = f"accuracy of recall by {name}"
                        return Behaviour(curve.horizon50, float(curve.at[-1]), probe)
            case Repeat():
                return Behaviour(result.horizon50, float(result.distances[-1]), "gain of the repeat probe")
    return None
