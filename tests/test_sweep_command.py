"""scripts/sweep.py: what it refuses at once, and one sweep that is stopped, goes on and ends."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.commands import call
from tests.small_run import ROOT, environment

SCRIPT = ROOT / "scripts" / "sweep.py"
CONFIG = """
train.model = @LanguageModel
LanguageModel.width = 32
LanguageModel.depth = 1
LanguageModel.mixers = (@LinearAttention,)
train.data = @RecallAtDistance()
RecallAtDistance.pairs = 4
RecallAtDistance.fillers = (0, 7)
RecallAtDistance.queries_per_row = 8
train.optimizer = @AdamW()
train.steps = 60
train.batch_size = 8
train.row_length = 32
"""


@pytest.fixture
def config(tmp_path):
    (tmp_path / "tiny.gin").write_text(CONFIG)
    return tmp_path / "tiny.gin"


@pytest.fixture
def command(monkeypatch):
    """The script as a module, which may start no process."""
    spec = importlib.util.spec_from_file_location("sweep_command", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def never(*_, **__):
        raise AssertionError("something slow was begun")

    monkeypatch.setattr(module, "warm_up", lambda: None)
    monkeypatch.setattr("seqmodels.sweep.pool.train", never)
    monkeypatch.setattr("seqmodels.sweep.pool.platform", never)
    return module


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none.gin"], "none.gin: there is no such config file."),
        (["tiny.gin"], "tiny.gin sets no AdamW.learning_rate: there is no learning rate."),
        (["tiny.gin", "--learning-rates", ""], "'' is none of the learning rates above 0"),
        (["tiny.gin", "--learning-rates", "1e-3,0.001"], "0.001 is given twice"),
        (["tiny.gin", "tiny.gin", "--learning-rates", "1e-3"], "a config file is given twice"),
        (["tiny.gin", "--learning-rates=1e-3", "--gin.AdamW.learning_rate=1"], "set the same"),
        (["tiny.gin", "--learning-rates=1e-3", "--seeds=0", "--gin.train.seed=1"], "set the same"),
        (["tiny.gin", "--learning-rates=1e-3", "--gin.train.stepz=1"], "did you mean 'steps'?"),
        (["tiny.gin", "--learning-rates=1e-3", "--gin.train.steps=0"], "train.steps = 0 should be"),
        (
            ["tiny.gin", "--learning-rates=1e-3", "--gin.train.profile_steps=(9,3)"],
            "profile_steps = (9, 3)",
        ),
        (["tiny.gin", "--learning-rates=1e-3", "--gin.train.evaluate_every=0"], "train.evaluate_every = 0"),
    ],
)
def test_a_wrong_call_is_one_sentence_before_anything_slow(
    arguments, said, command, config, monkeypatch, capsys
):
    """A sweep that fails after hours on what its command line already said has wasted them."""
    monkeypatch.chdir(config.parent)
    assert call(command, *arguments, "--run-dir", "sweep") == 2
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error
    assert not list(config.parent.glob("sweep/[!.]*"))


def test_a_folder_of_another_sweep_is_refused(command, config, monkeypatch, capsys):
    monkeypatch.chdir(config.parent)
    (config.parent / "sweep").mkdir()
    known = {"configs": {"tiny": {"config": "other"}}, "members": {"tiny_lr0.1_seed0": {}}}
    (config.parent / "sweep" / "sweep.json").write_text(json.dumps(known))
    assert call(command, "tiny.gin", "--learning-rates", "1e-3", "--run-dir", "sweep") == 2
    assert "holds another sweep, with members that this one has not" in capsys.readouterr().err


def start(config, folder):
    """The sweep as a user's shell starts it, in a process group of its own."""
    grid = ("--learning-rates", "1e-3,1e38", "--seeds", "0,1", "--workers", "2")
    return subprocess.Popen(
        [sys.executable, SCRIPT, config, "--run-dir", folder, *grid],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def gone(group):
    """Whether all processes of a group have ended, after some seconds at most."""
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False


@pytest.mark.slow
def test_a_sweep_that_is_stopped_goes_on_and_ends_with_its_table(config, tmp_path):
    """Workers that outlive the command would go on writing; members trained twice would waste hours; one that
    diverges must not end the others."""
    folder = tmp_path / "sweep"
    stopped = start(config, folder)
    first = ""
    while "1/4" not in first:
        first = stopped.stdout.readline()
        assert first, stopped.stderr.read()
    stopped.send_signal(signal.SIGTERM)
    _, error = stopped.communicate(timeout=60)
    assert stopped.returncode == 143, error
    assert "interrupted; the same command goes on" in error and "Traceback" not in error
    assert gone(stopped.pid), "a worker outlives the sweep"
    done = {path: path.stat().st_mtime_ns for path in folder.glob("*/outcome.json")}
    assert 1 <= len(done) < 4
    known = json.loads((folder / "sweep.json").read_text())
    assert sum("open" in member for member in known["members"].values()) == 4 - len(done)

    again = start(config, folder)
    output, error = again.communicate(timeout=120)
    assert again.returncode == 0, error
    assert f"{len(done)} of 4 members are done; training {4 - len(done)} members of 1 configs" in output
    assert {path: path.stat().st_mtime_ns for path in done} == done, "a member is trained twice"
    assert "tiny: 2 failed, counted as the worst value there is." in output
    assert "left" in output and max(map(len, output.splitlines())) < 160
    results = json.loads((folder / "sweep.json").read_text())["results"]["tiny"]
    assert results["best_learning_rate"] == 1e-3
    assert [rate["failed"] for rate in results["rates"]] == [0, 2]
    assert gone(again.pid)
