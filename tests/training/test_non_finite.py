"""A run whose loss is no number at one update: it stops, and goes on without that update where it may."""

import math

import numpy as np
import pytest

from scripts.faults.bits import content, figures
from seqmodels.errors import NonFiniteError
from seqmodels.training.checkpoints import steps
from seqmodels.training.job import Job
from seqmodels.training.run_directory import RunDirectory
from tests.small_run import train_here, write_config
from tests.training.tensorboard_reader import curves

SKIP = "--gin.train.skip_nonfinite=1"
SETTINGS = """
train.steps = 8
train.accumulation = 2
train.batch_size = 16
train.checkpoint_every = 3
train.evaluate_every = None
LanguageModel.dropout = 0.1
"""


def train(directory, config, *flags, poisoned):
    """(status, output): one micro-batch of the update that is made as the `poisoned`-th counts for NaN."""
    place, calls = Job.place, []

    def poison(job, batch):
        calls.append(batch)
        if len(calls) == poisoned:
            weights = batch["loss_weights"].copy()
            weights[-1] = np.nan
            batch = {**batch, "loss_weights": weights}
        return place(job, batch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Job, "place", poison)
        status, out, err = train_here(config, "--run-dir", directory, *flags)
    return status, out + err


@pytest.fixture(scope="module")
def stopped_and_resumed(tmp_path_factory):
    """(run, config, output of the process that stopped at update 5, output of the one that went on)."""
    folder = tmp_path_factory.mktemp("poisoned")
    config = write_config(folder, SETTINGS)
    status, stopped = train(folder / "r", config, poisoned=5)
    assert status == 3, stopped
    found, _ = curves(folder / "r")
    assert [step for step, _ in found["train/loss"]] == [1, 2, 3, 4, 5] and math.isnan(
        found["train/loss"][-1][1]
    )
    assert steps(folder / "r" / "checkpoints") == [3]
    status, resumed = train(folder / "r", config, SKIP, poisoned=2)
    assert status == 0, resumed
    return RunDirectory(folder / "r"), config, stopped, resumed


def test_the_message_names_the_update_the_norms_and_the_checkpoint(stopped_and_resumed):
    run, _, stopped, _ = stopped_and_resumed
    error = stopped[stopped.index("error: ") :]
    assert error.startswith("error: update 5 has a loss of nan and a gradient of norm nan. Gradient norms: ")
    assert f"Last good checkpoint: step 3, {run.checkpoints / '3'}." in error
    assert error.count("\n") == 1 and "train.skip_nonfinite" in error


def test_the_same_command_goes_on_without_the_update_where_it_may(stopped_and_resumed):
    run, _, _, resumed = stopped_and_resumed
    assert "3 of 8 done" in resumed and "train.skip_nonfinite: 0 -> 1" in resumed
    assert "update 5 has a loss of nan and a gradient of norm nan: skipped, number 1 of at most 1." in resumed
    lines = run.metrics()
    assert [line["step"] for line in lines] == list(range(1, 9))
    assert [line.get("train/skipped") for line in lines] == [None] * 3 + [0, 1, 1, 1, 1]
    assert math.isnan(lines[4]["train/loss"]) and all(math.isfinite(line["train/loss"]) for line in lines[5:])
    assert lines[4]["train/learning_rate"] == lines[5]["train/learning_rate"], "the schedule waits"
    found, _ = curves(run.path)
    assert [step for step, _ in found["train/loss"]] == list(range(1, 9))


@pytest.mark.slow
def test_an_evaluation_that_is_not_finite_names_its_update_too(tmp_path, monkeypatch):
    def during_training(*_, **__):
        raise NonFiniteError("the loss is not finite (disjoint)")

    monkeypatch.setattr("seqmodels.training.evaluator.during_training", during_training)
    status, _, err = train_here(write_config(tmp_path), "--run-dir", tmp_path / "r")
    assert status == 3
    found = "error: after update 3 the loss is not finite (disjoint). Last good checkpoint: step 2, "
    assert err.startswith(found)


@pytest.mark.slow
def test_a_run_that_skips_resumes_to_the_bits_of_a_straight_one(stopped_and_resumed, tmp_path):
    run, config, *_ = stopped_and_resumed
    status, output = train(tmp_path / "straight", config, SKIP, poisoned=5)
    assert status == 0, output
    straight = RunDirectory(tmp_path / "straight")

    def comparable(lines):
        lines = [{tag: value for tag, value in line.items() if tag != "train/skipped"} for line in lines]
        return repr(lines)  # NaN is not equal to itself

    assert comparable(figures(straight)) == comparable(figures(run))
    assert content(straight.checkpoints / "8") == content(run.checkpoints / "8")
