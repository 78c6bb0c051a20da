"""A sweep of 8 tiny members against the same 8 in one process, and against 8 calls of train.py.

Everything is included: imports, compilation (each turn begins with an empty cache, which its processes
share), evaluation, checkpoints, tables.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.comparison import Comparison, Contender, Target

ROOT = Path(__file__).resolve().parents[2]
RATES, SEEDS = (1e-3, 3e-3), (0, 1, 2, 3)
CONFIG = f"""
include '{ROOT}/configs/base.gin'
train.data = @RecallAtDistance()
RecallAtDistance.pairs = 4
train.steps = 200
train.batch_size = 16
train.row_length = 64
train.evaluate_every = 200
train.checkpoint_every = 200
LanguageModel.width = 32
LanguageModel.depth = 2
LanguageModel.mixers = (@SoftmaxAttention,)
"""


def comparisons():
    """One table."""
    swept, in_turn, alone = "sweep, a worker a core", "sweep, one process", "calls of train.py"
    yield Comparison(
        f"{len(RATES) * len(SEEDS)} members of width 32, 2 layers, 200 updates of 16 rows of 64; "
        f"load before: {os.getloadavg()[0]:.1f}",
        (
            Contender(swept, lambda: _sweep()),
            Contender(in_turn, lambda: _sweep("--workers", "1")),
            Contender(alone, _runs),
        ),
        (Target(swept, (in_turn,), 1.5), Target(swept, (alone,), 3)),
        rounds=3,
    )


def _sweep(*options):
    """The sweep by its command."""
    rates, seeds = (",".join(map(str, each)) for each in (RATES, SEEDS))
    grid = ("--learning-rates", rates, "--seeds", seeds)
    _in_new_folder(
        lambda config, folder: [["scripts/sweep.py", config, "--run-dir", folder, *grid, *options]]
    )


def _runs():
    """The members as runs of their own, one after the other."""
    _in_new_folder(
        lambda config, folder: [
            [
                "train.py",
                config,
                f"--run-dir={folder}/{rate}_{seed}",
                f"--gin.AdamW.learning_rate={rate}",
                f"--gin.train.seed={seed}",
            ]
            for rate in RATES
            for seed in SEEDS
        ]
    )


def _in_new_folder(commands):
    """Runs the commands that a config and a folder to run in give, with a compilation cache of their own."""
    with tempfile.TemporaryDirectory() as made:
        config = Path(made) / "tiny.gin"
        config.write_text(CONFIG)
        environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": f"{made}/cache"}
        for script, *arguments in commands(str(config), f"{made}/runs"):
            command = [sys.executable, str(ROOT / script), *arguments]
            subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
