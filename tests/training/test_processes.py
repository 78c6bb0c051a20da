"""Two processes train as one."""

import socket
import subprocess
import sys

import pytest

from seqmodels.training.run_directory import RunDirectory
from tests.small_run import ROOT, environment, train_process, write_config


@pytest.mark.slow
def test_two_processes_give_the_losses_of_one_and_one_set_of_files(tmp_path):
    """Reading the same rows twice, averaging each process's mean, or two writers: each shows here."""
    config = write_config(tmp_path)
    alone = train_process(config, "--run-dir", tmp_path / "alone")
    assert alone.returncode == 0, alone.stderr
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    command = [sys.executable, ROOT / "train.py", config, "--run-dir", tmp_path / "together"]
    together = {"JAX_COORDINATOR_ADDRESS": f"localhost:{port}", "JAX_NUM_PROCESSES": "2"}
    processes = [
        subprocess.Popen(
            command,
            env=environment(**together, JAX_PROCESS_ID=str(number)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    outputs = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert "step 6/6" in outputs[0][0]
    of_the_second = [line for line in outputs[1][0].splitlines() if not line.startswith("[Gloo]")]
    assert not of_the_second, "one process speaks for all"
    one, two = (RunDirectory(tmp_path / name).metrics() for name in ("alone", "together"))
    assert [line["step"] for line in two] == [line["step"] for line in one]
    for first, second in zip(one, two, strict=True):
        assert first["tokens"] == second["tokens"]
        for tag in ("train/loss", "train/gradient_norm", "eval/bits_per_byte"):
            if tag in first:
                assert second[tag] == pytest.approx(first[tag], rel=1e-4)
    assert len(list((tmp_path / "together").glob("events*"))) == 1
    resumed = train_process(config, "--run-dir", tmp_path / "together", "--gin.train.steps=7")
    assert resumed.returncode == 0, resumed.stderr
