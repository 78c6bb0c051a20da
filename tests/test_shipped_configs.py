"""Every shipped config runs, and those that are compared share what a comparison needs to be equal."""

import functools
import re
import sysconfig
from pathlib import Path

import gin
import jax
import numpy as np
import pytest

from seqmodels import config, registry  # noqa: F401  (what the configs name)
from seqmodels.language_model import abstract, build
from seqmodels.mixers import MIXERS
from seqmodels.training.norms import kinds_of_layers
from seqmodels.training.step import initial_state, make_dials, make_step
from tests.small_run import ROOT, train_process

# Budgets are included by the configs beside them; data configs go behind a model's (tests/data).
SHIPPED = sorted(
    path.relative_to(ROOT)
    for path in (ROOT / "configs").rglob("*.gin")
    if path.name not in ("base.gin", "budget.gin") and path.parent.name != "data"
)
STANDARD_LIBRARY = sysconfig.get_path("stdlib")
TINY = {
    "train.steps": 1,
    "train.batch_size": 2,
    "train.row_length": 96,
    "LanguageModel.width": 32,
    "LanguageModel.depth": 1,
}
TEXT = {
    "Text.tokenizer": "@ByteTokenizer()",
    "Text.corpus": "@TextFiles()",
    "TextFiles.train": f"{STANDARD_LIBRARY}/email/*.py",
}


def compared(folder: str) -> list[Path]:
    """The configs that share the budget of their folder."""
    return [path for path in SHIPPED if path.parent.name == folder]


def load(path: Path, *overrides: str) -> dict:
    """The bindings of `train` after loading a shipped config and what overrides it."""
    config.load([ROOT / path], overrides)
    return gin.get_bindings("train")


ALWAYS = ("quickstart", "transformer")
TRAINING = [
    pytest.param(path, id=str(path), marks=[] if path.stem in ALWAYS else pytest.mark.slow)
    for path in SHIPPED
    if path.parent.name != "mixers"
]


@pytest.mark.parametrize("path", TRAINING)
def test_every_shipped_config_trains(path: Path, tmp_path: Path):
    """A config that no longer fits the code is found by its first user otherwise."""
    overrides = TINY if {"recall", "tracking"} & {*path.parts} else TINY | TEXT
    flags = [f"--gin.{name}={value}" for name, value in overrides.items()]
    done = train_process(path, "--run-dir", tmp_path / "run", *flags)
    assert done.returncode == 0, done.stderr
    assert "done: 1 steps" in done.stdout


QUICK = ("transformer", "linear_attention", "mamba")
LEARNING = [
    pytest.param(path, id=path.stem, marks=[] if path.stem in QUICK else pytest.mark.slow)
    for path in compared("mixers")
]


@pytest.mark.parametrize("path", LEARNING)
def test_every_mixer_learns(path: Path):
    """A mixer whose gradients are lost, or whose initialisation is off, stays where it began."""
    tiny = {"LanguageModel.width": 32, "LanguageModel.feed_forward_width": 32, "AdamW.warmup_steps": 2}
    load(path)
    tiny["LanguageModel.depth"] = len(gin.query_parameter("LanguageModel.mixers"))
    train = load(path, *(f"{name} = {value}" for name, value in tiny.items()))
    graphdef, params, decays = build(train["model"], 256, 0)
    optimizer = train["optimizer"]
    update_at = functools.partial(optimizer.build, decays, 20)
    step = jax.jit(make_step(graphdef, kinds_of_layers(graphdef, params), update_at))
    dials = make_dials(0, optimizer.learning_rate)
    state, batch, losses = initial_state(params, update_at()), rows_of_text(8, 64), []
    for _ in range(20):
        state, metrics = step(state, batch, dials)
        losses.append(float(metrics.loss))
    assert sum(losses[-5:]) < sum(losses[:5])


def test_every_mixer_has_a_config():
    """Without one, its first user would have to guess what it needs to be compared fairly."""
    text = "".join((ROOT / path).read_text() for path in compared("mixers"))
    assert not [name for name in MIXERS if not re.search(rf"@{name}\b", text)]


def rows_of_text(rows: int, length: int) -> dict[str, np.ndarray]:
    """One batch of this file's bytes, in one micro-batch."""
    text = np.frombuffer(Path(__file__).read_bytes(), np.uint8).astype(np.int32)
    ones = np.ones((1, rows, length))
    return {
        "tokens": text[: rows * length].reshape(1, rows, length),
        "targets": text[1 : rows * length + 1].reshape(1, rows, length),
        "segment_ids": ones.astype(np.int32),
        "loss_weights": ones.astype(np.float32),
    }


@pytest.mark.parametrize("folder", ["mixers", "recall", "mqar"])
def test_compared_configs_share_their_budget(folder: str):
    """Runs with other data, steps, batches or rates would be compared as if only the mixer differed."""
    alike = ("steps", "batch_size", "row_length", "seed", "accumulation")
    found = []
    for path in compared(folder):
        bound = load(path)
        optimizer = gin.get_bindings("AdamW")
        named = ("BytePairTokenizer", "RecallAtDistance", "Mqar")
        data = {name: gin.get_bindings(name) for name in named}
        found.append(({key: bound.get(key) for key in alike}, optimizer, data))
    assert all(each == found[0] for each in found)


def test_text_configs_have_equal_parameters():
    """Non-embedding parameters within 2 % of each other, as the configs and the README claim."""
    sizes = {}
    for path in compared("mixers"):
        model = load(path)["model"]
        _, params, _ = abstract(model, 1024)
        blocks = {part: tree for part, tree in params.items() if part != "embedding"}
        sizes[path.stem] = sum(leaf.size for leaf in jax.tree.leaves(blocks))
    assert max(sizes.values()) <= 1.02 * min(sizes.values()), sizes


def test_every_config_opens_with_its_command():
    """A reader must know how to run it, on what, and what to expect, before reading its settings."""
    for path in SHIPPED:
        opening = (ROOT / path).read_text().split("\n\n")[0]
        assert f"python train.py {path}" in opening or "make quickstart" in opening, path
        assert "minutes" in opening, path
