"""A run small enough for tests: its config and corpus, and train.py in this process or in one of its own."""

import contextlib
import io
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CACHE = ROOT / ".cache"

CONFIG = """
train.model = @LanguageModel
train.data = @Text()
train.optimizer = @AdamW()
train.steps = 6
train.batch_size = 8
train.row_length = 32
train.log_every = 1
train.evaluate_every = 3
train.checkpoint_every = 2
Text.corpus = @TextFiles()
TextFiles.train = '{corpus}/*.txt'
TextFiles.validation_fraction = 0.3
LanguageModel.width = 32
LanguageModel.depth = 1
AdamW.warmup_steps = 2
"""


def write_config(folder: Path, more: str = "", documents: int = 24) -> Path:
    """A config and its corpus of random words; `more` overrides the settings above."""
    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    words = random.Random(0)
    for number in range(documents):
        text = " ".join(words.choice(["alpha", "beta", "gamma", "delta", "epsilon"]) for _ in range(12))
        (corpus / f"{number:03}.txt").write_text(f"{number} {text}\n")
    (folder / "small.gin").write_text(CONFIG.format(corpus=corpus))
    (folder / "run.gin").write_text(f"include 'small.gin'\n{more}")
    return folder / "run.gin"


def environment(**more: str) -> dict[str, str]:
    """That of a process of its own: caches shared by all tests, one CPU device."""
    caches = {"SEQMODELS_CACHE": str(CACHE / "tests"), "JAX_COMPILATION_CACHE_DIR": str(CACHE / "xla")}
    return {**os.environ, **caches, "PYTHONPATH": str(ROOT), **more}


def train_process(
    *arguments: object, script: Path = ROOT / "train.py", **more: str
) -> subprocess.CompletedProcess:
    """Runs train.py, or a script that calls it, in a process of its own."""
    command = [sys.executable, str(script), *map(str, arguments)]
    return subprocess.run(command, env=environment(**more), capture_output=True, text=True, timeout=300)


def train_here(*arguments: object) -> tuple[int, str, str]:
    """Runs train.py in this process, where a compilation can be counted: (status, stdout, stderr)."""
    import train

    out, err, status = io.StringIO(), io.StringIO(), 0
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.setenv("SEQMODELS_CACHE", str(CACHE / "tests"))
        patch.setattr(sys, "argv", ["train.py", *map(str, arguments)])
        try:
            train.main()
        except SystemExit as end:
            status = end.code
    return status, out.getvalue(), err.getvalue()
