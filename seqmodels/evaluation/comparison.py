"""Runs side by side: what each run directory says of its model, and whether the comparison is fair."""

import json
import re
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

import gin

from seqmodels import accounting, config
from seqmodels.evaluation.artifacts import SUMMARY
from seqmodels.evaluation.statistics import Estimate
from seqmodels.evaluation.trained_run import abstract_model
from seqmodels.training.run_directory import RunDirectory

PARAMETER_TOLERANCE = 0.02
_EQUAL_SETTINGS = ("steps", "batch_size", "row_length", "seed", "accumulation")


class ComparedRun(NamedTuple):
    """What is compared of a run.

    label: its name, or its path where two have the same name. step: of the newest evaluation by eval.py, or
    the last logged one. tokens: trained on until then. costs, state_bytes: at the training length. lines: of
    metrics.jsonl. suites: of summary.json; empty where eval.py did not run. settings: what should be equal
    between runs, by name.
    """

    label: str
    step: int
    tokens: int
    mixers: str
    parameters: int
    flops_per_token: float
    state_bytes: int
    tokens_per_second: float | None
    lines: list[dict[str, Any]]
    suites: dict[str, Any]
    settings: dict[str, str]


class Entry(NamedTuple):
    """A line of the ledger: one value a run, and whether they are as equal as they should be."""

    item: str
    values: list[str]
    fair: bool


def read(run: RunDirectory, label: str) -> ComparedRun:
    """Reads a run directory; nothing but it is needed.

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
    return ComparedRun(
        label=label,
        step=last["step"] if step is None else step,
        tokens=summary.get("tokens_seen", last["tokens"]),
        mixers=", ".join(f"{layers.count(name)} {name}" for name in dict.fromkeys(layers)),
        parameters=known["parameters"]["total"],
        flops_per_token=accounting.model_costs(model, length).flops_per_token,
        state_bytes=accounting.state_bytes(model, length),
        tokens_per_second=statistics.median(rates) if rates else None,
        lines=lines,
        suites=summary.get("suites", {}),
        settings=_settings(run, settings, known),
    )


def labels(runs: Sequence[RunDirectory]) -> list[str]:
    """A name for each run; its path where another one has the same name."""
    names = [run.name for run in runs]
    return [run.name if names.count(run.name) == 1 else str(run.path) for run in runs]


def ledger(runs: Sequence[ComparedRun]) -> list[Entry]:
    """What should be equal for the figures to compare, and whether it is."""
    counts = [run.parameters for run in runs]
    entries = [
        Entry(
            f"parameters within {PARAMETER_TOLERANCE:.0%}",
            [f"{count:,} ({count / min(counts) - 1:+.1%})" for count in counts],
            max(counts) <= min(counts) * (1 + PARAMETER_TOLERANCE),
        ),
        _equal("tokens trained on", [f"{run.tokens:,}" for run in runs]),
    ]
    names = dict.fromkeys(name for run in runs for name in run.settings)
    entries += [_equal(name, [run.settings.get(name, "none") for run in runs]) for name in names]
    for title, suite, key in (
        ("perplexity protocol", "perplexity", "protocol"),
        ("tokens scored", "perplexity", "tokens_scored"),
        ("recall rows", "recall", "rows_hash"),
        ("repeat passages", "repeat", "passages"),
    ):
        if any(suite in run.suites for run in runs):
            values = [str(run.suites.get(suite, {}).get(key, "not evaluated"))[:16] for run in runs]
            entries.append(_equal(title, values))
    return entries


def estimate(run: ComparedRun, suite: str, *path: str) -> Estimate | None:
    """A figure of summary.json with its interval; None where the suite was not run.

    Numbers that JSON does not have were written as null: an accuracy that never falls through 1/2 has no
    horizon.
    """
    found = run.suites.get(suite)
    for name in path:
        found = found.get(name) if found else None
    if not found:
        return None
    return Estimate(*(float("inf") if found[name] is None else found[name] for name in Estimate._fields))


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


def _settings(run: RunDirectory, settings: dict[str, Any], known: dict[str, Any]) -> dict[str, str]:
    optimizer = settings["optimizer"]
    fields = {name: value for name, value in sorted(vars(optimizer).items()) if not name.startswith("_")}
    return {
        "data": known["data"]["fingerprint"][:8],
        **{name.replace("_", " "): _operative(run, "train", name) for name in _EQUAL_SETTINGS},
        "optimizer": f"{type(optimizer).__name__} " + ", ".join(f"{k} {v}" for k, v in fields.items()),
        "dtype": known["dtype"],
        "short convolution": _operative(run, r"\w+", "conv_width"),
        "position scheme": _operative(run, r"\w+", "positions|position_encoding"),
        "device": f"{known['devices']} {known['device']}",
    }


def _operative(run: RunDirectory, component: str, parameter: str) -> str:
    """The values, defaults included, that the run used for the settings that match."""
    path = run.path / "operative.gin"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    found = re.findall(rf"^{component}\.(?:{parameter}) = (.*)$", text, flags=re.MULTILINE)
    return ", ".join(sorted({value.strip("'") for value in found} - {"None", "none"})) or "none"


def _equal(item: str, values: list[str]) -> Entry:
    return Entry(item, values, len(set(values)) == 1)
