"""Runs side by side: what each run directory says of its model and of its figures."""

import json
import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gin
import jax.numpy as jnp

from seqmodels import accounting, config
from seqmodels.evaluation import comparison_sweep
from seqmodels.evaluation.artifacts import SUMMARY
from seqmodels.evaluation.comparison_sweep import Membership
from seqmodels.evaluation.json_numbers import decoded
from seqmodels.evaluation.statistics import Estimate
from seqmodels.evaluation.trained_run import abstract_model
from seqmodels.training.run_directory import RunDirectory

_SHOWN_SETTINGS = ("steps", "batch_size", "row_length", "seed", "accumulation")
_SCORED = {
    "text": "every token",
    "recall": "answers alone",
    "mixture": "every token of text, answers alone of tasks",
}


class ComparedRun(NamedTuple):
    """What is compared of a run.

    label: its name, with as many of its folders as tell it from the others. step: of the newest evaluation by
    eval.py, or the last logged one. tokens: trained on until then. costs, state_bytes: at the training
    length. cache_bytes: of a KV cache as wide and deep as the model, for each token. lines: of metrics.jsonl.
    suites: of summary.json; empty where eval.py did not run. folder: where its tables lie, None likewise.
    learning_rate: the peak of the schedule. settings: what else should be equal between runs, by name. sweep:
    that the run is a member of, if any.
    """

    label: str
    step: int
    tokens: int
    mixers: str
    parameters: int
    flops_per_token: float
    state_bytes: int
    bytes_per_element: int
    cache_bytes: int
    tokens_per_second: float | None
    lines: list[dict[str, Any]]
    suites: dict[str, Any]
    folder: Path | None
    learning_rate: float
    settings: dict[str, str]
    sweep: Membership | None


def read(run: RunDirectory, label: str) -> ComparedRun:
    """Reads a run directory; nothing but it is needed, and the tables of the sweep around it, if any.

    Raises InputError where the run has logged nothing, or its config does not load.
    """
    config.load([run.config_file])
    settings = gin.get_bindings("train")
    known, lines = run.information(), run.metrics()
    model = abstract_model(settings["model"], known["vocab_size"])
    step, summary = _newest_evaluation(run)
    logged = [line for line in lines if line["step"] <= step] if step is not None else lines
    last = logged[-1] if logged else {"step": 0, "tokens": 0}
    length = settings["row_length"]
    rates = [line["train/tokens_per_second"] for line in lines if "train/tokens_per_second" in line]
    layers = [type(model.layers.block(layer).mixer).__name__ for layer in range(model.layers.depth)]
    size = jnp.dtype(known["dtype"]).itemsize
    cached = {"batch": 1, "layers": len(layers), "length": 1, "width": model.width}
    return ComparedRun(
        label=label,
        step=last["step"] if step is None else step,
        tokens=summary.get("tokens_seen", last["tokens"]),
        mixers=", ".join(f"{layers.count(name)} {name}" for name in dict.fromkeys(layers)),
        parameters=known["parameters"]["total"],
        flops_per_token=accounting.model_costs(model, length).flops_per_token,
        state_bytes=accounting.state_bytes(model, length),
        bytes_per_element=size,
        cache_bytes=accounting.kv_cache_bytes(**cached, itemsize=size),
        tokens_per_second=statistics.median(rates) if rates else None,
        lines=lines,
        suites=summary.get("suites", {}),
        folder=None if step is None else run.evaluation(step),
        learning_rate=settings["optimizer"].learning_rate,
        settings=_settings(run, settings, known, layers),
        sweep=comparison_sweep.membership(run),
    )


def labels(runs: Sequence[RunDirectory]) -> list[str]:
    """A name for each run: its own, with as many of its folders as tell it from the others."""
    parts = [run.path.parts for run in runs]

    def shortest(own: tuple[str, ...]) -> str:
        alike = (sum(other[-depth:] == own[-depth:] for other in parts) for depth in range(1, len(own) + 1))
        depth = next((depth for depth, count in enumerate(alike, 1) if count == 1), len(own))
        return str(Path(*own[-depth:]))

    return [shortest(own) for own in parts]


def estimate(run: ComparedRun, suite: str, *path: str) -> Estimate | None:
    """A figure of summary.json with its interval; None where the suite was not run."""
    found = run.suites.get(suite)
    for name in path:
        found = found.get(name) if found else None
    return restored(found) if found else None


def restored(found: dict[str, float | str | None]) -> Estimate:
    """An estimate as summary.json has it."""
    return Estimate(*(decoded(found[name]) for name in Estimate._fields))


def sweeps(runs: Sequence[ComparedRun]) -> list[str]:
    """The names of the recall curves that any run has, in their order."""
    found = (name for run in runs for name in run.suites.get("recall", {}) if name.startswith("by_"))
    return [name.removeprefix("by_") for name in dict.fromkeys(found)]


def logged(run: ComparedRun, tag: str) -> float | None:
    """The last value of a tag up to the compared step; None where it was never logged."""
    values = [line[tag] for line in run.lines if tag in line and line["step"] <= run.step]
    return values[-1] if values else None


def _newest_evaluation(run: RunDirectory) -> tuple[int | None, dict[str, Any]]:
    found = [int(path.parent.name) for path in run.path.glob(f"eval/*/{SUMMARY}")]
    if not found:
        return None, {}
    text = (run.evaluation(max(found)) / SUMMARY).read_text(encoding="utf-8")
    return max(found), json.loads(text)


def _settings(
    run: RunDirectory, settings: dict[str, Any], known: dict[str, Any], layers: Sequence[str]
) -> dict[str, str]:
    path = run.path / "operative.gin"
    used = path.read_text(encoding="utf-8") if path.is_file() else ""
    mixers = "|".join(map(re.escape, dict.fromkeys(layers)))
    optimizer = settings["optimizer"]
    fields = {name: value for name, value in sorted(vars(optimizer).items()) if not name.startswith("_")}
    del fields["learning_rate"]
    return {
        "data": known["data"]["fingerprint"][:8],
        "loss mask": _SCORED[known["data"]["kind"]],
        **{name.replace("_", " "): _operative(used, "train", name) for name in _SHOWN_SETTINGS},
        "optimizer": f"{type(optimizer).__name__} " + ", ".join(f"{k} {v}" for k, v in fields.items()),
        "dtype": known["dtype"],
        "conv width": _operative(used, mixers, "conv_width"),
        "position scheme": _position_scheme(used, mixers),
        "device": f"{known['devices']} {known['device']}",
    }


def _position_scheme(used: str, mixers: str) -> str:
    """What the model adds at its input, and what its mixers do."""
    added, inside = (
        _operative(used, "LanguageModel", "positions"),
        _operative(used, mixers, "position_encoding"),
    )
    if added == "none":
        return inside
    return f"{added} at the input, {inside if ' ' in inside else f'mixers {inside}'}"


def _operative(used: str, components: str, parameter: str) -> str:
    """The value that the run used for a setting of some components, defaults included.

    used: operative.gin. components: their names, as a pattern; each scope that one was used in counts as a
    component of its own. Where their values differ, each stands behind its component's name.
    """
    names = re.findall(rf"^((?:\w+/)*(?:{components}))\.\w+ = ", used, flags=re.MULTILINE)
    values = {}
    for name in sorted(set(names)):
        found = re.search(rf"^{name}\.{parameter} = (.*)$", used, flags=re.MULTILINE)
        values[name] = found[1].strip("'").replace("None", "none") if found else "none"
    if len(set(values.values())) > 1:
        return ", ".join(f"{name} {value}" for name, value in values.items())
    return next(iter(values.values()), "none")
