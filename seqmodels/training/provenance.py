"""What a run was made with: versions, revision, machine, model, data."""

import dataclasses
import importlib.metadata
import json
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax

from seqmodels import accounting, config
from seqmodels.data.text import text_of
from seqmodels.training.job import DataSource, Job
from seqmodels.training.optimizers import Optimizer
from seqmodels.training.run_directory import RunDirectory
from seqmodels.training.settings import Settings

PACKAGES = (
    "seqmodels", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "grain", "datasets", "tokenizers",
    "gin-config", "tensorboardX", "numpy",
)  # fmt: skip


def run_information(job: Job, data: DataSource) -> dict[str, Any]:
    """What run.json holds, as JSON: versions, git revision, command, devices, data, parameters, dtype."""
    device = jax.devices()[0]
    parts = accounting.parameters_by_part(job.params)
    text = text_of(data)
    return {
        "seed": job.seed,
        "command": sys.argv,
        "git": _revision(),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
        "machine": platform.platform(),
        "platform": device.platform,
        "device": device.device_kind,
        "devices": jax.device_count(),
        "processes": jax.process_count(),
        "data": {"fingerprint": data.fingerprint, "kind": data.kind, **data.describe()},
        "tokenizer": None if text is None else text.tokenizer.fingerprint,
        "vocab_size": data.vocab_size,
        "parameters": {"total": sum(parts.values()), **parts},
        "dtype": job.model.dtype,
        "weight_decay": _by_decay(job),
    }


def record(run: RunDirectory, loaded: config.Config, facts: dict[str, Any], step: int) -> None:
    """Writes what was asked, what was used, and what with; keeps the list of starts, each at a step."""
    known = (run.path / "run.json").is_file()
    starts = [*(run.information()["starts"] if known else ()), {"time": time.time(), "step": step}]
    run.write("config.gin", loaded.text)
    run.write("operative.gin", config.operative_text())
    run.write("run.json", json.dumps({**facts, "starts": starts}, indent=1))


def hyperparameters(job: Job, settings: Settings) -> dict[str, Any]:
    """The row of a run in TensorBoard's table of runs; all runs have the same keys."""
    optimizer = settings.optimizer
    mixers = [type(job.model.layers.block(layer).mixer).__name__ for layer in range(job.model.layers.depth)]
    common = {field.name: getattr(optimizer, field.name) for field in dataclasses.fields(Optimizer)}
    return {
        "mixers": "+".join(dict.fromkeys(mixers)),
        "layers": len(mixers),
        "width": job.model.width,
        "dtype": job.model.dtype,
        "parameters": sum(leaf.size for leaf in jax.tree.leaves(job.params)),
        "optimizer": type(optimizer).__name__,
        **common,
        "seed": job.seed,
        "steps": settings.steps,
        **settings.sizes,
    }


def _by_decay(job: Job) -> dict[str, list[str]]:
    """The names of the parameters that take weight decay and of those that do not."""
    names: dict[bool, list[str]] = {True: [], False: []}
    for path, decayed in jax.tree.leaves_with_path(job.decays):
        names[decayed].append(".".join(str(key.key) for key in path))
    return {"decayed": names[True], "not_decayed": names[False]}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None  # run from a checkout, or an optional package


def _revision() -> str | None:
    """The commit of the checkout, marked where files differ from it; None outside a checkout."""
    command = [
        "git",
        "-C",
        str(Path(__file__).parent),
        "describe",
        "--always",
        "--dirty",
        "--abbrev=40",
        "--exclude=*",
    ]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
