"""A run that was interrupted, however often, ends with the bits of one that was not."""

import json
import signal
from pathlib import Path

import pytest

from seqmodels.training.checkpoints import steps
from seqmodels.training.run_directory import RunDirectory
from tests.small_run import train_process, write_config

SIGNAL_AT = Path(__file__).parent / "signal_at.py"

# Three epochs and more of packed rows, parted into micro-batches, with dropout.
SETTINGS = """
train.steps = 24
train.batch_size = 4
train.accumulation = 2
train.checkpoint_every = 5
train.evaluate_every = 12
LanguageModel.dropout = 0.3
LanguageModel.mixers = ({mixers},)
LanguageModel.depth = {depth}
"""

# What depends on the machine's mood.
TIMES = {"time", "train/tokens_per_second", "train/step_time", "train/data_wait", "train/mfu"}


def figures(run: RunDirectory) -> list[dict]:
    return [{tag: value for tag, value in line.items() if tag not in TIMES} for line in run.metrics()]


def checksums(run: RunDirectory, step: int) -> dict:
    metadata = json.loads((run.checkpoints / str(step) / "_CHECKPOINT_METADATA").read_text())
    return metadata["custom_metadata"]


def interrupted(number: signal.Signals, moment: str, step: int, config: Path, directory: Path):
    return train_process(int(number), moment, step, config, "--run-dir", directory, script=SIGNAL_AT)


def check_resume(folder: Path, mixers: tuple[str, ...]) -> None:
    names = ", ".join(f"@{name}" for name in mixers)
    config = write_config(folder, SETTINGS.format(mixers=names, depth=len(mixers)), documents=16)
    straight = train_process(config, "--run-dir", folder / "straight")
    assert straight.returncode == 0, straight.stderr

    # Stopped by a signal: saved at once. Killed while it writes: back to the one before. Then to the end.
    stopped = interrupted(signal.SIGINT, "update", 7, config, folder / "parted")
    assert stopped.returncode == 130, stopped.stderr
    assert "saved at step" in stopped.stderr and "Traceback" not in stopped.stderr
    parted = RunDirectory(folder / "parted")
    assert 7 <= steps(parted.checkpoints)[-1] <= 9
    killed = interrupted(signal.SIGKILL, "save", 20, config, folder / "parted")
    assert killed.returncode == -signal.SIGKILL
    assert steps(parted.checkpoints)[-1] == 15
    last = train_process(config, "--run-dir", folder / "parted")
    assert last.returncode == 0, last.stderr
    assert "15 of 24 done" in last.stdout

    whole = RunDirectory(folder / "straight")
    assert [line["step"] for line in figures(whole)] == list(range(1, 25))
    assert figures(parted) == figures(whole)
    assert checksums(parted, 24) == checksums(whole, 24)
    assert steps(whole.checkpoints)[-2:] == [20, 24]


def test_an_interrupted_run_ends_with_the_bits_of_a_straight_one(tmp_path):
    """All mixers in one model; a position or a random state that is not saved shows in the first losses."""
    check_resume(tmp_path, ("SoftmaxAttention", "LinearAttention", "Mamba"))


@pytest.mark.slow
@pytest.mark.parametrize("mixer", ["SoftmaxAttention", "LinearAttention", "Mamba"])
def test_each_mixer_alone_resumes_to_the_bit(tmp_path, mixer):
    check_resume(tmp_path, (mixer, mixer))
