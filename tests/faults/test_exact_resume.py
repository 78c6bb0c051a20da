"""A run that was stopped and killed, however often, ends with the bits of one that was left alone."""

import re
import shutil
import signal

import numpy as np
import pytest

from scripts.faults import configurations
from scripts.faults.bits import differences
from scripts.faults.campaign import Campaign
from scripts.faults.process import Fault
from scripts.faults.run import Run
from scripts.faults.tally import Tally
from seqmodels.training.run_directory import RunDirectory
from tests.training.tensorboard_reader import curves


@pytest.fixture(scope="module")
def runs(tmp_path_factory, start):
    """Two runs of one config: one left alone, one to be struck."""
    folder = tmp_path_factory.mktemp("runs")
    (config,) = configurations.write(["linear, packed, float32"], folder / "config").values()
    reference, struck = (Run(config, folder / name, **start) for name in ("reference", "struck"))
    reference.finish()
    return reference, struck


def test_an_interrupted_run_ends_with_the_bits_of_one_that_was_not(runs):
    """Stopped by a signal it saves at once; killed while it saves it goes back to the checkpoint before."""
    reference, struck = runs
    assert struck.strike(Fault(signal.SIGINT, "update", 7, 0.0))
    stopped = struck.step()
    assert 7 <= stopped <= 10
    assert f"interrupted, saved at step {stopped}; the same command goes on" in struck.output.read_text()
    assert struck.strike(Fault(signal.SIGKILL, "save", 20, 0.0))
    went_back = struck.step()
    assert went_back in (12, 16), "the save before may still be under way"
    struck.finish()
    said = struck.output.read_text()
    assert f"{went_back} of 24 done" in said and "Traceback" not in said
    assert differences(reference.folder, struck.folder) == []
    check_curves(struck.directory)


def check_curves(directory):
    """TensorBoard's own reader finds what metrics.jsonl has, each step once, over all starts."""
    found, _ = curves(directory)
    logged: dict[str, list[tuple[int, float]]] = {}
    for line in RunDirectory(directory).metrics():
        for tag in line.keys() - {"step", "tokens", "time"}:
            logged.setdefault(tag, []).append((line["step"], float(np.float32(line[tag]))))
    assert {tag: points for tag, points in found.items() if not tag.startswith("by_tokens/")} == logged


def a_figure(folder):
    lines = (folder / "run" / "metrics.jsonl").read_text()
    changed = re.sub(r'("train/loss": \d\.\d+)(\d)', lambda at: at[1] + str(9 - int(at[2])), lines, count=1)
    (folder / "run" / "metrics.jsonl").write_text(changed)


def a_batch(folder):
    with open(folder / "trace.txt", "a") as trace:
        trace.write("update 3 0.0 of_other_rows\n")


def the_state(folder):
    shutil.rmtree(folder / "run" / "checkpoints" / "24")
    shutil.copytree(folder / "run" / "checkpoints" / "20", folder / "run" / "checkpoints" / "24")


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (a_figure, "the figures of step 1"),
        (a_batch, "the batch of update 3"),
        (the_state, "position of checkpoint 24"),
    ],
)
def test_what_differs_is_found(runs, tmp_path, change, found):
    """A comparison that finds nothing is worth as much as what it would find."""
    reference, _ = runs
    other = shutil.copytree(reference.folder, tmp_path / "other")
    change(other)
    assert found in differences(reference.folder, other)


@pytest.mark.slow
def test_every_family_of_mixers_kind_of_data_and_dtype_survives_kills(tmp_path, start):
    names = [
        "softmax, packed, float32",
        "linear, streamed, bfloat16",
        "mamba, streamed, float32",
        "gated delta, packed, bfloat16",
        "hybrid, packed, float32",
    ]
    tally = Tally()
    Campaign(names, tmp_path, **start, tally=tally, kills_a_run=3).strike(15)
    assert tally.kills.total() == 15
    assert (tally.lost, tally.differing) == (0, 0)
