"""A run goes on with other settings by a rule: some freely, some by consent, some never; each is printed."""

import math
import re
import shutil

import pytest

from seqmodels.training.checkpoints import steps
from seqmodels.training.lock import Lock
from seqmodels.training.run_directory import RunDirectory
from tests.small_run import train_here, train_process, write_config

RATE = "--gin.AdamW.learning_rate=1e-4"
CONSENT = "--gin.train.allow_changes=True"


@pytest.fixture(scope="module")
def standing_at_4(tmp_path_factory):
    """(config, run directory): 4 of 8 updates at a learning rate of 1e-3."""
    folder = tmp_path_factory.mktemp("run")
    settings = "train.steps = 8\ntrain.checkpoint_every = 4\ntrain.evaluate_every = None\n"
    config = write_config(folder, settings + "AdamW.learning_rate = 1e-3\nAdamW.clip_norm = 1.0\n")
    status, out, err = train_here(config, "--run-dir", folder / "r")
    assert status == 0, out + err
    shutil.rmtree(folder / "r" / "checkpoints" / "8")
    return config, folder / "r"


def cosine(step, steps, peak):
    """The learning rate of update `step`, by the formula of the schedule: warm-up 2, final fraction 0.1."""
    progress = (step - 1 - 2) / (steps - 2)
    return peak * (0.1 + 0.9 * (1 + math.cos(math.pi * progress)) / 2)


def announced(output):
    """(update, learning rate) that a run says it goes on with."""
    update, rate = re.search(r"update (\d+) of \d+ has learning rate (\S+)\.\n", output).groups()
    return int(update), float(rate)


def logged(run, step):
    return RunDirectory(run).metrics_at(step)["train/learning_rate"]


def test_what_never_may_change_is_listed_apart_from_what_may_with_consent(standing_at_4):
    config, run = standing_at_4
    never = ("--gin.train.seed=7", "--gin.LanguageModel.width=64", "--gin.train.batch_size=16")
    flags = (*never, RATE, "--gin.AdamW.beta1=0.8", "--gin.train.log_every=2")
    status, _, err = train_here(config, "--run-dir", run, *flags)
    assert status == 2 and "Traceback" not in err
    first, second = err.split("\nand ")
    assert first.startswith(
        f"error: {run} holds a run of another config: name another --run-dir, or set back"
    )
    assert first.splitlines()[1:] == [
        "  LanguageModel.width: 32 -> 64",
        "  AdamW.beta1: 0.9 -> 0.8",
        "  train.batch_size: 8 -> 16",
        "  train.seed: 0 -> 7",
    ]
    assert second.startswith("set back, or allow with --gin.train.allow_changes=True")
    assert second.splitlines()[1:] == ["  AdamW.learning_rate: 0.001 -> 0.0001"]
    status, _, err = train_here(config, "--run-dir", run, *flags, CONSENT)
    assert status == 2 and "train.seed: 0 -> 7" in err, "there is no consent to these"
    assert "AdamW.learning_rate" not in err


@pytest.mark.parametrize(
    "flag",
    [
        "AdamW.learning_rate=1e-4",
        "AdamW.schedule='constant'",
        "AdamW.warmup_steps=3",
        "AdamW.final_fraction=0.0",
        "AdamW.decay_fraction=0.1",
        "AdamW.weight_decay=0.0",
        "AdamW.clip_norm=None",
    ],
)
def test_what_every_optimizer_has_changes_by_consent_alone(standing_at_4, flag):
    config, run = standing_at_4
    status, _, err = train_here(config, "--run-dir", run, f"--gin.{flag}")
    assert status == 2 and err.count("\n  ") == 1
    assert f": set back, or allow with --gin.train.allow_changes=True (old -> new):\n  {flag[:9]}" in err


def test_a_run_that_began_in_between_is_not_written_over(standing_at_4, tmp_path, monkeypatch):
    """Another process may begin and end a run between the first look at a directory and the lock on it."""
    config, run = standing_at_4

    def late(path, *arguments):
        shutil.copytree(run, path)
        return Lock(path, *arguments)

    monkeypatch.setattr("seqmodels.training.train.Lock", late)
    status, _, err = train_here(config, "--run-dir", tmp_path / "r", "--resume", "never")
    assert status == 2 and "already holds a run, at step 4" in err
    for name in ("config.gin", "run.json", "metrics.jsonl"):
        assert (tmp_path / "r" / name).read_bytes() == (run / name).read_bytes()


@pytest.mark.slow
def test_a_run_goes_on_on_another_number_of_devices(standing_at_4, tmp_path):
    """8 here, 1 in a process of its own, and back; the losses are those of a run that stayed."""
    config, run = standing_at_4
    stayed, moved = (shutil.copytree(run, tmp_path / name) for name in ("stayed", "moved"))
    for directory, train in ((stayed, train_here), (moved, train_process)):
        ended = train(config, "--run-dir", directory)
        assert (ended[0] if train is train_here else ended.returncode) == 0, ended
    losses = [[line["train/loss"] for line in RunDirectory(each).metrics()] for each in (stayed, moved)]
    assert losses[0][:4] == losses[1][:4] and losses[0] == pytest.approx(losses[1], rel=1e-5)
    status, out, err = train_here(config, "--run-dir", moved, "--gin.train.steps=9")
    assert status == 0, out + err
    assert RunDirectory(moved).information()["devices"] == 8


def test_the_learning_rate_is_the_one_announced_and_each_change_is_printed(standing_at_4):
    """A change ignored in silence, or a schedule made anew in silence, shows here. Last: it goes on."""
    config, run = standing_at_4
    before = RunDirectory(run).metrics()[:4]
    status, out, err = train_here(config, "--run-dir", run, RATE, "--gin.train.keep_every=4", CONSENT)
    assert status == 0, out + err
    assert "AdamW.learning_rate: 0.001 -> 0.0001; the new value holds from here on\n" in out
    assert "train.keep_every: None -> 4; the new value holds from here on\n" in out
    assert "allow_changes:" not in out
    assert announced(out) == (5, pytest.approx(cosine(5, 8, 1e-4), rel=1e-5))
    assert logged(run, 5) == pytest.approx(announced(out)[1], rel=1e-5)
    assert RunDirectory(run).metrics()[:4] == before
    assert steps(RunDirectory(run).checkpoints) == [4, 8]

    # The run has the new rate now. Consent was for one start: going back needs it again.
    status, _, err = train_here(config, "--run-dir", run, "--gin.train.steps=16")
    assert status == 2 and "AdamW.learning_rate: 0.0001 -> 0.001" in err

    status, out, err = train_here(config, "--run-dir", run, RATE, "--gin.train.steps=16")
    assert status == 0, out + err
    assert "train.steps: 8 -> 16; the new value holds from here on, for the schedule too\n" in out
    assert "train.keep_every: 4 -> None" in out
    assert announced(out) == (9, pytest.approx(cosine(9, 16, 1e-4), rel=1e-5))
    assert logged(run, 9) == pytest.approx(announced(out)[1], rel=1e-5)
    assert logged(run, 8) == pytest.approx(cosine(8, 8, 1e-4), rel=1e-5), "what was logged stays"
