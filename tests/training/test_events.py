"""TensorBoard's event file, read back with TensorBoard's own reader."""

import warnings

import pytest

from seqmodels.training.events import EventFile

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the reader's own
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator


def curves(directory):
    reader = EventAccumulator(str(directory), size_guidance={"scalars": 0, "tensors": 0})
    reader.Reload()
    found = {
        tag: [(event.step, event.value) for event in reader.Scalars(tag)] for tag in reader.Tags()["scalars"]
    }
    return found, reader


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


def test_texts_and_the_table_of_runs_go_into_the_same_file(tmp_path):
    """The library's own writer of hyperparameters opens a second run beside this one."""
    events = start(tmp_path, 0)
    events.text("config", "train.steps = 3", 0)
    settings = {"width": 32, "clip_norm": None, "mixers": ["Mamba"], "name": "x", "remat": True}
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
