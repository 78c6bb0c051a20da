"""Runs that end badly end with their own status, and leave what was good."""

import subprocess
import sys

import jax
import pytest

from seqmodels.training.checkpoints import steps
from seqmodels.training.job import Job
from seqmodels.training.run_directory import RunDirectory
from tests.small_run import ROOT, environment, train_here, train_process, write_config


def test_a_loss_that_is_no_number_stops_the_run_and_spares_the_checkpoints(tmp_path):
    """The first update throws the parameters out of range; found late, that must not reach a checkpoint.

    Its own loss and gradient are finite: a checkpoint of it would be one that no run can go on from.
    """
    config = write_config(
        tmp_path, "AdamW.learning_rate = 1e35\nAdamW.warmup_steps = 1\nAdamW.schedule = 'constant'\n"
    )
    status, out, err = train_here(config, "--run-dir", tmp_path / "r", "--gin.train.log_every=100")
    assert status == 3, out + err
    assert err.startswith("error: update 1 has a loss of ")
    assert (
        "Gradient norms: SoftmaxAttention" in err and "parameter norms after it: SoftmaxAttention inf" in err
    )
    assert "Last good checkpoint: none." in err
    assert "Traceback" not in err
    assert not steps(RunDirectory(tmp_path / "r").checkpoints)


def test_a_full_disk_ends_the_run_with_its_own_status_and_names_the_checkpoint(tmp_path):
    """Files of at most 64 KiB: a run that ends with 0 has lost its model without a word."""
    config = write_config(tmp_path, "LanguageModel.width = 128\n")
    limit = "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))\n"
    limit += "sys.argv[0] = 'train.py'; runpy.run_path('train.py', run_name='__main__')"
    command = [sys.executable, "-c", limit, str(config), "--run-dir", str(tmp_path / "r")]
    own = environment(JAX_COMPILATION_CACHE_DIR=str(tmp_path / "xla"))  # what is cached here is cut short
    done = subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, timeout=300)
    assert done.returncode == 4, done.stderr
    assert "error: checkpoint 2 was not written" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_allocation_that_fails_says_what_to_lower(tmp_path, monkeypatch):
    """At the fourth update, after which the figures of three are logged."""
    place, calls = Job.place, []

    def full(*arguments):
        calls.append(arguments)
        if len(calls) == 4:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 99 bytes.")
        return place(*arguments)

    monkeypatch.setattr(Job, "place", full)
    status, _, err = train_here(write_config(tmp_path), "--run-dir", tmp_path / "r")
    assert status == 2
    sizes = ("99 bytes", "train.batch_size = 8", "train.row_length = 32", "train.accumulation = 1", "remat")
    for words in sizes:
        assert words in err
    assert err.count("\n") == 1
    assert [line["step"] for line in RunDirectory(tmp_path / "r").metrics()] == [1, 2, 3]


def test_a_second_process_is_kept_out(tmp_path):
    config = write_config(tmp_path)
    code = "import sys, pathlib; from seqmodels.training.lock import Lock\n"
    code += "lock = Lock(pathlib.Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code, str(tmp_path / "r")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=environment(), text=True, **pipes) as holder:
        assert holder.stdout.readline() == "held\n"
        status, _, err = train_here(config, "--run-dir", tmp_path / "r")
        holder.communicate("")
    assert status == 2 and f"in use by process {holder.pid}" in err


@pytest.mark.parametrize("value", ["(2, 3)", "(5, 6)"])
def test_a_profile_is_written_where_tensorboard_finds_it(tmp_path, value):
    config = write_config(tmp_path, "train.evaluate_every = None\n")
    status, _, err = train_here(config, "--run-dir", tmp_path / "r", f"--gin.train.profile_steps={value}")
    assert status == 0, err
    assert list((tmp_path / "r" / "plugins" / "profile").rglob("*.xplane.pb"))


@pytest.mark.slow
def test_bfloat16_and_muon_run_in_a_process_of_their_own(tmp_path):
    config = write_config(tmp_path, "LanguageModel.dtype = 'bfloat16'\ntrain.optimizer = @Muon()\n")
    (tmp_path / "small.gin").write_text((tmp_path / "small.gin").read_text().replace("AdamW", "Muon"))
    done = train_process(config, "--run-dir", tmp_path / "r")
    assert done.returncode == 0, done.stderr
    assert "precision    bfloat16" in done.stdout
