"""The command line: what is wrong is said in one sentence, with status 2, before anything is compiled."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.small_run import ROOT, environment, train_here, train_process, write_config


@pytest.fixture
def refused(tmp_path, monkeypatch):
    """Runs train.py on a small config with lines added, and returns the one sentence it is refused with."""

    def never(*_, **__):
        raise AssertionError("the step was compiled before the input was found wrong")

    monkeypatch.setattr("seqmodels.training.job.compile_step", never)

    def run(*arguments, more="", config=None, directory=None):
        file = config or write_config(tmp_path, more)
        status, _, err = train_here(file, "--run-dir", directory or tmp_path / "r", *arguments)
        assert status == 2, err
        assert err.startswith("error: ") and err.count("\n") == 1, err
        return err

    return run


def test_a_typo_in_a_binding(refused):
    message = refused(more="LanguageModel.widht = 3\n")
    assert "run.gin:2" in message and "did you mean 'width'" in message
    assert "did you mean 'steps'" in refused("--gin.train.setps=3")


def test_a_value_of_the_wrong_type(refused):
    assert "train.steps = 2.5" in refused("--gin.train.steps=2.5")


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("train.steps=0", "train.steps = 0 should be at least 1"),
        ("train.batch_size=-8", "train.batch_size = -8"),
        ("train.log_every=0", "train.log_every = 0"),
        ("train.profile_steps=(4, 9)", "train.profile_steps = (4, 9) should be two updates of 1 to 6"),
        ("train.batch_size=9", "does not spread evenly over 8 devices; 8 or 16 does"),
        ("train.accumulation=3", "no multiple of train.accumulation = 3"),
        ("LanguageModel.depth=0", "LanguageModel.depth"),
        ("AdamW.clip_norm=-1", "AdamW.clip_norm = -1"),
        ("train.initial_parameters=nowhere", "there is no run directory nowhere"),
        ("train.seed=4294967296", "train.seed = 4294967296 should be a whole number from 0 to 4294967295"),
        ("train.steps=2147483648", "train.steps = 2147483648 is too large"),
        (
            "LanguageModel.width=1000000000",
            "LanguageModel.width is 1000000000; it must be at most 16,777,216",
        ),
        ("LanguageModel.width=1000000", "parameters, which take"),
        ("LanguageModel.depth=100000", "LanguageModel.depth is 100000; it must be at most 1,024"),
        ("LanguageModel.logits_softcap=0", "LanguageModel.logits_softcap is 0"),
        ("AdamW.beta2=1", "AdamW.beta2 = 1 should be below 1"),
        ("AdamW.epsilon=0", "AdamW.epsilon = 0 should be above 0"),
    ],
)
def test_a_value_that_makes_no_sense(refused, flag, words):
    assert words in refused(f"--gin.{flag}")


def test_a_check_finds_what_training_would(refused):
    """What is found only after the check costs the queue of a cluster."""
    assert "there is no run directory nowhere" in refused("--check", "--gin.train.initial_parameters=nowhere")


def test_a_missing_config_file(refused, tmp_path):
    assert f"{tmp_path}/none.gin: there is no such config file" in refused(config=tmp_path / "none.gin")
    assert "lr=1: there is no such config file. A setting is written --gin.NAME=VALUE." in refused("lr=1")


def test_missing_text_files(refused):
    assert "nowhere" in refused("--gin.TextFiles.train=nowhere/*.txt")


def test_an_empty_corpus(refused, tmp_path):
    (tmp_path / "empty.txt").write_text("")
    assert "empty.txt" in refused(f"--gin.TextFiles.train={tmp_path}/empty.txt")


def test_a_corpus_shorter_than_one_row(refused):
    assert "row_length = 100000" in refused("--gin.train.row_length=100000")


def test_a_token_id_outside_the_vocabulary(refused, monkeypatch):
    """Compiled code clamps or fills such an index without a word."""
    from seqmodels.data.text import Text

    monkeypatch.setattr(Text, "vocab_size", 100)
    assert "outside the vocabulary of 100 ids" in refused()


def test_a_run_directory_that_is_none(refused, tmp_path):
    (tmp_path / "notes.txt").write_text("")
    assert "is a file" in refused(directory=tmp_path / "notes.txt")
    assert "holds other files (" in refused(directory=tmp_path)


def test_a_checkpoint_that_is_not_there(refused):
    assert "holds no run to go on with" in refused("--resume", "must")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--steps", "3"],
        ["--run-dir", "elsewhere"],
        ["--run-di", "elsewhere"],
        ["--resume", "always"],
        ["--gin.train.steps"],
        ["--gin.train.steps=", "3"],
        ["--gin.train.steps=3", "--gin.train.steps=3"],
    ],
    ids=" ".join,
)
def test_unknown_doubled_and_cut_arguments(tmp_path, arguments):
    """Taken silently, a run starts with half of what was asked."""
    status, _, err = train_here(write_config(tmp_path), "--run-dir", tmp_path / "r", *arguments)
    assert status == 2 and "Traceback" not in err
    assert not (tmp_path / "r").exists()


def test_no_run_directory_is_refused_except_for_a_check(tmp_path):
    status, _, err = train_here(write_config(tmp_path))
    assert status == 2 and "--run-dir DIR is needed" in err


def test_help_comes_within_two_seconds():
    """JAX and the data libraries take seconds to import: the help must not wait for them."""
    start = time.perf_counter()
    code = "import sys, runpy; sys.argv = ['train.py', '--help']\n"
    code += "try: runpy.run_path('train.py', run_name='__main__')\n"
    code += "except SystemExit: print('jax' in sys.modules, 'grain' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert time.perf_counter() - start < 2
    assert "--resume" in done.stdout and done.stdout.endswith("False False\n")


def test_a_platform_that_is_not_there_is_one_line(tmp_path):
    done = train_process(write_config(tmp_path), "--run-dir", tmp_path / "r", JAX_PLATFORMS="cuda")
    assert done.returncode == 2
    assert done.stderr.startswith("error: JAX_PLATFORMS=cuda asks for a device that this machine")
    assert "Traceback" not in done.stderr and not (tmp_path / "r").exists()


def test_a_signal_before_the_first_step_ends_the_process_at_once(tmp_path):
    """There is nothing to save, and a compilation can take long."""
    config = write_config(tmp_path)
    command = [sys.executable, ROOT / "train.py", config, "--run-dir", tmp_path / "r"]
    command += [
        "--gin.train.steps=100000",
        "--gin.LanguageModel.depth=7",
    ]  # not in the cache: seconds to compile
    environ = environment(JAX_ENABLE_COMPILATION_CACHE="0", PYTHONUNBUFFERED="1")
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while not process.stdout.readline().startswith("compiling"):
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        start = time.perf_counter()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert "nothing to save" in err and time.perf_counter() - start < 2
    assert (
        not os.listdir(tmp_path / "r" / "checkpoints") if (tmp_path / "r" / "checkpoints").exists() else True
    )
