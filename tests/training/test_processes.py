"""Two processes train as one: the same updates, one set of files, and one end, however it comes."""

import json
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import eval as eval_command
from scripts import generate as generate_command
from seqmodels.errors import InputError
from seqmodels.training.checkpoints import steps
from seqmodels.training.processes import agreement, check_same, joined
from seqmodels.training.run_directory import RunDirectory
from tests.commands import call
from tests.small_run import ROOT, environment, train_process, write_config

SIGNAL_AT = Path(__file__).parent / "signal_at.py"

# Two files of four documents and one, read as they are needed, over several passes. With a constant rate
# a run of more steps makes the same updates.
STREAMED = """
AdamW.schedule = 'constant'
train.steps = 8
train.evaluate_every = 4
train.checkpoint_every = 2
LanguageModel.dropout = 0.1
Text.corpus = @HuggingFace()
HuggingFace.path = 'json'
HuggingFace.data_files = '{folder}/*.jsonl'
HuggingFace.streaming = True
HuggingFace.shuffle_window = 2
HuggingFace.validation_documents = 1
"""


class Ended(NamedTuple):
    """How a process ended: its exit status, and what it wrote."""

    status: int
    out: str
    err: str


def pair(*commands: list) -> list[Ended]:
    """Two processes of one run, with what stands behind `python` in each; one command is that of both."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    together = {"JAX_COORDINATOR_ADDRESS": address, "JAX_NUM_PROCESSES": "2"}
    processes = [
        subprocess.Popen(
            [sys.executable, *map(str, (*commands, *commands)[number])],
            env=environment(**together, JAX_PROCESS_ID=str(number)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    outputs = [process.communicate(timeout=900) for process in processes]
    return [Ended(process.returncode, *output) for process, output in zip(processes, outputs, strict=True)]


class Run(NamedTuple):
    """A config, and the directory of the run that two processes made of it."""

    config: Path
    path: Path

    def command(self, *more: object) -> list:
        return [ROOT / "train.py", self.config, "--run-dir", self.path, *more]

    def with_signal(self, number: signal.Signals, step: int) -> list:
        """The command, of a process that sends itself a signal after update `step` has been started."""
        return [SIGNAL_AT, int(number), "update", step, *self.command()[1:]]

    def losses(self) -> dict[int, float]:
        return {line["step"]: line["train/loss"] for line in RunDirectory(self.path).metrics()}

    def checksums(self, step: int) -> dict[str, int]:
        """Those of a checkpoint's arrays."""
        about = (self.path / "checkpoints" / str(step) / "_CHECKPOINT_METADATA").read_text()
        return json.loads(about)["custom_metadata"]["crc32"]


@pytest.fixture(scope="module")
def straight(tmp_path_factory) -> Run:
    """A run of two processes that nothing disturbs; they start at once in a directory that is not there."""
    folder = tmp_path_factory.mktemp("processes")
    for name, documents in (("many", 4), ("one", 1)):
        texts = [f"{name} {number} " + "alpha beta gamma " * 12 for number in range(documents)]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    run = Run(write_config(folder, STREAMED.format(folder=folder)), folder / "straight")
    ended = pair(run.command())
    assert [each.status for each in ended] == [0, 0], ended
    assert "step 8/8" in ended[0].out
    of_the_second = [line for line in ended[1].out.splitlines() if not line.startswith("[Gloo]")]
    assert not of_the_second, "one process speaks for all"
    return run


@pytest.mark.slow
def test_two_processes_make_the_updates_of_one_and_one_set_of_files(straight, tmp_path):
    """Reading the same rows twice, averaging each process's mean, or two writers: each shows here."""
    alone = train_process(straight.config, "--run-dir", tmp_path / "alone")
    assert alone.returncode == 0, alone.stderr
    one, two = (RunDirectory(path).metrics() for path in (tmp_path / "alone", straight.path))
    assert [line["step"] for line in two] == [line["step"] for line in one] == list(range(1, 9))
    for first, second in zip(one, two, strict=True):
        assert first["tokens"] == second["tokens"]
        for tag in ("train/loss", "train/gradient_norm", "eval/bits_per_byte"):
            if tag in first:
                assert second[tag] == pytest.approx(first[tag], rel=1e-5)
    files = sorted(file.name.partition(".out.")[0] for file in straight.path.iterdir() if file.is_file())
    assert files == [".lock", "config.gin", "events", "metrics.jsonl", "operative.gin", "run.json"]
    assert steps(straight.path / "checkpoints") == [6, 8]


@pytest.mark.slow
def test_whatever_ends_one_process_ends_both_and_they_resume_to_the_same_bits(straight):
    """Killed, damaged on disk, told to stop: no process waits for one that is gone, and nothing is lost."""
    run = straight._replace(path=straight.path.with_name("parted"))
    left, killed = pair(run.command(), run.with_signal(signal.SIGKILL, 5))
    assert killed.status == -signal.SIGKILL
    assert left.status == 1
    assert left.err.startswith("error: another process of the run has ended;") and left.err.count("\n") == 1
    newest = steps(run.path / "checkpoints")[-1]
    assert newest in (2, 4), "the save of step 4 may still have been under way"

    # Both go back to the same checkpoint, and only one of the two sets the damaged one aside.
    next((run.path / "checkpoints" / str(newest) / "params").rglob("d/*")).write_bytes(b"")
    ended = pair(run.command(), run.with_signal(signal.SIGTERM, 6))
    assert f"checkpoint {newest} is damaged and skipped" in ended[0].out
    assert [each.status for each in ended] == [128 + signal.SIGTERM] * 2, ended
    assert all("interrupted, saved at step" in each.err for each in ended)
    assert steps(run.path / "checkpoints")[-1] in (6, 7)

    assert [each.status for each in pair(run.command())] == [0, 0]
    assert run.losses() == straight.losses()
    assert run.checksums(8) == straight.checksums(8)


@pytest.mark.slow
def test_a_run_goes_on_in_one_process_and_in_two_again(straight):
    """The position in the data counts rows of all processes, and arrays are stored whole."""
    run = straight._replace(path=straight.path.with_name("moved"))
    shutil.copytree(straight.path, run.path)
    before = RunDirectory(run.path).metrics_at(8)
    assert call(eval_command, run.path, "--suite", "perplexity") == 0
    summary = json.loads((run.path / "eval" / "8" / "summary.json").read_text())
    bits = summary["suites"]["perplexity"]["bits_per_byte"]["value"]
    assert bits == pytest.approx(before["eval/bits_per_byte"], rel=1e-5)
    assert call(generate_command, run.path, "--prompt", "one", "--max-new-tokens", "4") == 0

    alone = train_process(*run.command()[1:], "--gin.train.steps=10")
    assert alone.returncode == 0, alone.stderr
    assert [each.status for each in pair(run.command("--gin.train.steps=12"))] == [0, 0]
    straight_on = straight._replace(path=straight.path.with_name("straight_on"))
    longer = train_process(*straight_on.command()[1:], "--gin.train.steps=12")
    assert longer.returncode == 0, longer.stderr
    assert run.losses() == pytest.approx(straight_on.losses(), rel=1e-5)


@pytest.mark.slow
def test_a_mistake_that_one_process_finds_ends_both_with_its_sentence(straight):
    first, second = pair(straight.command("--resume", "never"))
    assert first.status == second.status == 2
    sentence = f"--resume never: {straight.path} already holds a run, at step 8; name another --run-dir.\n"
    assert first.err == f"error: {sentence}"
    assert second.err == f"error: process 0: {sentence}"


@pytest.mark.slow
def test_processes_with_different_commands_do_not_start(straight):
    other = straight._replace(path=straight.path.with_name("different"))
    ended = pair(other.command(), other.command("--gin.train.seed=1"))
    differs = "the command of process 1 differs from that of process 0; start all with the same command."
    assert [(each.status, each.err) for each in ended] == [(2, f"error: {differs}\n")] * 2
    assert not other.path.exists()


@pytest.mark.parametrize(
    "variables, message",
    [
        ({"JAX_PROCESS_ID": "1"}, "JAX_PROCESS_ID needs JAX_COORDINATOR_ADDRESS"),
        ({"JAX_COORDINATOR_ADDRESS": "localhost"}, "=localhost should be HOST:PORT of process 0"),
        (
            {"JAX_COORDINATOR_ADDRESS": "localhost:1", "JAX_NUM_PROCESSES": "two"},
            "JAX_NUM_PROCESSES=two should be a whole number",
        ),
        (
            {"JAX_COORDINATOR_ADDRESS": "localhost:1", "JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": "2"},
            "JAX_PROCESS_ID=2 should be below JAX_NUM_PROCESSES=2",
        ),
    ],
)
def test_variables_that_make_no_sense_are_refused(monkeypatch, variables, message):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=message), joined():
        pytest.fail("no process was joined")


def test_a_path_that_is_not_utf_8_can_be_compared_and_named():
    """Such a path of --run-dir ended in a traceback before it could be refused."""
    check_same("the command", "runs/\udcff")
    with pytest.raises(InputError, match="no run"), agreement():
        raise InputError("runs/\udcff holds no run.")
