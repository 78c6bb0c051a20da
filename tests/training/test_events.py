"""TensorBoard's event file, read back with TensorBoard's own reader."""

import math

import pytest

from seqmodels.training.events import EventFile
from tests.training.tensorboard_reader import curves


def line(step):
    return {"step": step, "tokens": 1000 * step, "time": float(step), "train/loss": float(step)}


def start(directory, step):
    return EventFile(directory, step, [line(before) for before in range(1, step + 1)])


def write(events, step):
    values = line(step)
    events.scalars(step, values["tokens"], values["time"], {"train/loss": values["train/loss"]})


def test_scalars_are_on_disk_before_the_file_is_closed(tmp_path):
    """The library's default keeps them for two minutes: a killed run shows nothing."""
    events = start(tmp_path, 0)
    write(events, 1)
    found, _ = curves(tmp_path)
    assert found["train/loss"] == [(1, 1.0)]
    assert found["by_tokens/train/loss"] == [(1000, 1.0)]
    events.close()


def test_three_starts_of_a_run_give_each_step_once(tmp_path):
    """Killed after step 4 with a checkpoint at 2, then after 5 with one at 4: no step twice, none missing."""
    for first, last in ((0, 4), (2, 5), (4, 6)):
        events = start(tmp_path, first)
        for step in range(first + 1, last + 1):
            write(events, step)
        events.close()
    found, _ = curves(tmp_path)
    assert found["train/loss"] == [(step, float(step)) for step in range(1, 7)]
    assert found["by_tokens/train/loss"] == [(1000 * step, float(step)) for step in range(1, 7)]
    assert len(list(tmp_path.iterdir())) == 3


def test_starts_under_a_clock_that_was_set_back_give_each_step_once(tmp_path, monkeypatch):
    """The reader takes files by name: one named before its predecessor has its steps dropped by that one."""
    (tmp_path / "events.out.tfevents.copy").touch()  # a user's
    clock = [1_700_000_000.0]
    monkeypatch.setattr("seqmodels.training.events.time.time", lambda: clock[0])
    monkeypatch.setattr("seqmodels.training.events.socket.gethostname", lambda: f"host{clock[0]:.0f}")
    for step in range(12):
        events = start(tmp_path, step)
        write(events, step + 1)
        events.close()
        clock[0] -= 86_400
    (tmp_path / "events.out.tfevents.copy").unlink()
    found, _ = curves(tmp_path)
    assert found["train/loss"] == [(step, float(step)) for step in range(1, 13)]


def test_texts_and_the_table_of_runs_go_into_the_same_file(tmp_path):
    """The library's own writer of hyperparameters opens a second run beside this one."""
    events = start(tmp_path, 0)
    events.text("config", "train.steps = 3", 0)
    settings = {"width": 32, "clip_norm": None, "mixers": ["Mamba"], "name": "x", "remat": True}
    settings |= {"nested": {"list": [1, None]}, "rate": math.nan}
    events.hyperparameters(settings, ("train/loss",))
    events.close()
    found, reader = curves(tmp_path)
    assert "train/loss" not in found, "the table of runs must add no point to a curve"
    assert "config/text_summary" in reader.Tags()["tensors"]
    assert {"_hparams_/experiment", "_hparams_/session_start_info"} <= set(reader.summary_metadata)
    assert [path.is_file() for path in tmp_path.iterdir()] == [True]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_values_that_are_no_numbers_do_not_stop_the_writer(tmp_path, value):
    events = start(tmp_path, 0)
    events.scalars(1, 10, 1.0, {"train/loss": value, "train/gradient_norm": 1.0})
    events.close()
    found, _ = curves(tmp_path)
    assert found["train/gradient_norm"] == [(1, 1.0)]
    ((step, stored),) = found["train/loss"]
    assert step == 1 and repr(stored) == repr(value)


def test_a_record_that_a_kill_cut_short_hides_nothing_that_comes_after(tmp_path):
    """The reader gives up on a file at such a record; the next start writes one of its own."""
    events = start(tmp_path, 0)
    write(events, 1)
    write(events, 2)
    events.close()
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-7])
    events = start(tmp_path, 1)
    write(events, 2)
    write(events, 3)
    events.close()
    found, _ = curves(tmp_path)
    assert found["train/loss"] == [(1, 1.0), (2, 2.0), (3, 3.0)]


def test_an_evaluation_that_metrics_jsonl_does_not_know_is_taken_back(tmp_path):
    """A kill between the two files: the run evaluates again, and TensorBoard would show the step twice."""
    events = start(tmp_path, 0)
    write(events, 1)
    write(events, 2)
    events.scalars(2, 2000, 2.5, {"eval/loss": 7.0})
    events.close()
    events = start(tmp_path, 2)
    events.scalars(2, 2000, 3.0, {"eval/loss": 7.0})
    events.close()
    found, _ = curves(tmp_path)
    assert found["train/loss"] == [(1, 1.0), (2, 2.0)]
    assert found["eval/loss"] == [(2, 7.0)] and found["by_tokens/eval/loss"] == [(2000, 7.0)]
