"""eval.py on what is not the full evaluation: what training evaluates, and the text of training."""

import json
import shutil

import jax
import numpy as np
import pytest
from jax.sharding import AxisType

import eval as eval_command
from seqmodels.data.text import Text
from seqmodels.training import job
from tests import commands
from tests.commands import call, events


@pytest.fixture
def text_run(tmp_path):
    """A copy that no other test has evaluated."""
    return shutil.copytree(commands.text_run(), tmp_path / "text", ignore=shutil.ignore_patterns("eval"))


@pytest.mark.parametrize("of", ["text", "recall"])
def test_what_training_evaluates_gives_the_figures_that_it_logged(monkeypatch, of):
    """To the last digit on one device; and it must not pass for the full evaluation, nor take its place."""
    one = {"axis_types": (AxisType.Auto,), "devices": jax.devices()[:1]}
    monkeypatch.setattr(job, "make_mesh", lambda: jax.make_mesh((1,), ("rows",), **one))
    commands.text_run()  # writes the text
    config = commands.text_config() if of == "text" else commands.CONFIG.format(data="RecallAtDistance")
    run = commands.train(f"one_device_{of}", config)
    assert call(eval_command, run, "--gin.evaluate.scope=scheduled") == 0
    found = json.loads((run / "eval/2/scheduled/summary.json").read_text())["suites"]
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    logged = {tag: value for line in lines for tag, value in line.items() if tag.startswith("eval/")}
    shown = events(run / "eval/2/scheduled")
    assert {tag: shown[tag][0][1].tensor.float_val[0] for tag in logged} == {
        tag: np.float32(value) for tag, value in logged.items()
    }
    assert all(suite["scope"] == "scheduled" and suite["split"] == "validation" for suite in found.values())
    if of == "text":
        assert found["perplexity"]["nll"]["value"] == logged["eval/loss"]
        assert found["perplexity"]["bits_per_byte"]["value"] == logged["eval/bits_per_byte"]
    else:
        assert found["recall"]["by_delay"]["area"]["value"] == logged["eval/recall_area"]
    assert not (run / "eval/2/summary.json").exists()
    assert not list((run / "eval").glob("events*"))


def test_training_text_by_name(text_run, capsys):
    """It tells memorising from learning; its bits per byte beside those of a byte model made of it do not."""
    assert call(eval_command, text_run, "--gin.evaluate.split=train", "--suite=perplexity") == 0
    assert "step 2, train" in capsys.readouterr().out
    found = json.loads((text_run / "eval/2/train/summary.json").read_text())["suites"]
    data = json.loads((text_run / "run.json").read_text())["data"]
    assert found["perplexity"]["bytes_scored"] == data["train_bytes"] != data["validation_bytes"]
    assert found["perplexity"]["split"] == found["positions"]["split"] == "train"
    assert "byte_models" not in found["perplexity"]


def test_training_text_that_streams_is_refused(text_run, monkeypatch, capsys):
    """It is not kept, and its validation text in its place would be a figure of something else."""

    def streaming(data, *arguments, **options):
        prepare(data, *arguments, **options)
        data.train = None

    prepare = Text.prepare
    monkeypatch.setattr(Text, "prepare", streaming)
    assert call(eval_command, text_run, "--gin.evaluate.split=train") == 2
    assert "the text of training streams and is not kept" in capsys.readouterr().err


def test_validation_rows_of_a_task(tmp_path, capsys):
    """Drawn as the test rows are, and as many of them, but others."""
    run = shutil.copytree(commands.recall_run(), tmp_path / "recall", ignore=shutil.ignore_patterns("eval"))
    assert call(eval_command, run, "--gin.evaluate.split=validation", "--suite=interventions") == 0
    found = json.loads((run / "eval/2/validation/summary.json").read_text())["suites"]["interventions"]
    assert (found["scope"], found["split"]) == ("full", "validation")
    assert call(eval_command, run, "--gin.evaluate.split=train") == 2
    assert "for recall data it must be one of test, validation" in capsys.readouterr().err
