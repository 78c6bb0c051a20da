"""A whole run in this process: what it writes, what it compiles, and when it refuses to go on."""

import json
import logging
import re

import jax
import pytest

from seqmodels.training.checkpoints import steps
from seqmodels.training.run_directory import RunDirectory
from tests.small_run import train_here, write_config


@pytest.fixture(scope="module", autouse=True)
def _settings_of_jax():
    """A run sets some for its process."""
    names = ("jax_default_matmul_precision", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(jax.config, name) for name in names}
    yield
    for name, value in before.items():
        jax.config.update(name, value)


def train(*arguments):
    """(status, output, compilations of the step): all on one line each in the library's log."""
    compiled = []
    handler = logging.Handler()
    handler.emit = lambda record: compiled.append(record.getMessage())
    logger = logging.getLogger("jax._src.interpreters.pxla")
    logger.addHandler(handler)
    propagate, logger.propagate = logger.propagate, False
    try:
        with jax.log_compiles():
            status, out, err = train_here(*arguments)
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate
    return status, out + err, sum("jit(step)" in line or "Compiling step" in line for line in compiled)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """(config, run directory, output, compilations) of a run of 6 steps with 3 saves and 2 evaluations."""
    folder = tmp_path_factory.mktemp("run")
    config = write_config(folder)
    status, output, compilations = train(config, "--run-dir", folder / "r")
    assert status == 0, output
    return config, folder / "r", output, compilations


def test_the_step_is_compiled_once_in_a_run_with_saves_and_evaluations(finished):
    assert finished[3] == 1


def test_the_run_directory_holds_what_was_asked_used_and_found(finished):
    run = RunDirectory(finished[1])
    assert {
        path.name.partition(".out")[0] for path in run.path.iterdir() if not path.name.startswith(".")
    } == {
        "config.gin",
        "operative.gin",
        "run.json",
        "metrics.jsonl",
        "events",
        "checkpoints",
    }
    assert "AdamW.warmup_steps = 2" in run.config_text
    assert "AdamW.beta1 = 0.9" in (run.path / "operative.gin").read_text(), "defaults that were used"
    about = run.information()
    assert about["versions"]["jax"] == jax.__version__
    assert about["parameters"]["total"] == sum(
        count for part, count in about["parameters"].items() if part != "total"
    )
    assert "embedding.table" in about["weight_decay"]["decayed"]
    assert "final_norm.scale" in about["weight_decay"]["not_decayed"]
    assert (about["devices"], about["seed"], about["dtype"]) == (8, 0, "float32")
    assert steps(run.checkpoints)[-1] == 6, "the last step has a checkpoint"


def test_each_step_has_one_line_of_all_figures(finished):
    lines = RunDirectory(finished[1]).metrics()
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5, 6]
    expected = {"loss", "bits_per_byte", "learning_rate", "gradient_norm", "tokens_per_second", "step_time"}
    expected |= {
        "data_wait",
        "mfu",
        "gradient_norm/SoftmaxAttention",
        "parameter_norm/norm",
        "update_norm/embedding",
    }
    for line in lines:
        assert {f"train/{name}" for name in expected} <= line.keys()
    assert [line["step"] for line in lines if "eval/bits_per_byte" in line] == [3, 6]
    assert [line["train/learning_rate"] for line in lines[:2]] == pytest.approx([5e-4, 1e-3])


def test_the_table_before_the_first_step_says_what_will_run(finished):
    output = finished[2]
    table = output[: output.index("step 1/6")]
    for name in (
        "devices",
        "precision",
        "parameters",
        "decayed",
        "state",
        "operations",
        "memory",
        "steps",
        "time",
    ):
        assert re.search(rf"^  {name} ", table, re.MULTILINE), name
    assert "cpu, 8 devices" in table
    assert "float32, products at highest precision" in table


def test_a_sample_of_text_is_logged_with_the_evaluations(finished):
    content = b"".join(path.read_bytes() for path in finished[1].glob("events*"))
    assert content.count(b"sample/text_summary") == 2


def test_a_finished_run_says_so_and_compiles_nothing(finished):
    config, run, *_ = finished
    before = {
        path: path.stat().st_mtime_ns for path in run.rglob("*") if path.is_file() and path.name != ".lock"
    }
    status, output, compilations = train(config, "--run-dir", run)
    assert (status, compilations) == (0, 0)
    assert "is finished: it is at step 6 of 6" in output
    assert before == {path: path.stat().st_mtime_ns for path in before}, "nothing is overwritten"


def test_fewer_steps_than_were_made_are_refused(finished):
    config, run, *_ = finished
    status, output, compilations = train(config, "--run-dir", run, "--gin.train.steps=4")
    assert (status, compilations) == (2, 0)
    assert "train.steps = 4" in output and "already at step 6" in output
    assert "new value holds" not in output


def test_another_config_is_refused_with_each_difference(finished):
    config, run, *_ = finished
    flags = ("--gin.AdamW.learning_rate=1e-4", "--gin.train.seed=7", "--gin.train.log_every=2")
    status, output, compilations = train(config, "--run-dir", run, *flags)
    assert (status, compilations) == (2, 0)
    assert "AdamW.learning_rate: 0.001 -> 0.0001" in output
    assert "train.seed: 0 -> 7" in output
    assert "train.log_every" not in output, "how often a line is written changes no update"
    assert "Traceback" not in output


def test_other_data_are_refused(finished):
    config, run, *_ = finished
    added = config.parent / "corpus" / "more.txt"
    added.write_text("one document more\n")
    status, output, compilations = train(config, "--run-dir", run, "--gin.train.steps=8")
    added.unlink()
    assert (status, compilations) == (2, 0)
    assert "other data" in output


@pytest.mark.parametrize(
    ("resume", "directory", "words"),
    [("never", "r", "already holds a run, at step 6"), ("must", "new", "holds no run to go on with")],
)
def test_resume_never_and_must(finished, resume, directory, words):
    config, run, *_ = finished
    status, output, _ = train(config, "--run-dir", run.parent / directory, "--resume", resume)
    assert status == 2 and words in output
    assert not (run.parent / "new").exists()


def test_a_check_reports_and_writes_nothing(finished):
    config, run, *_ = finished
    status, output, _ = train(config, "--run-dir", run.parent / "checked", "--check")
    assert status == 0
    assert re.search(r"^  memory .*temporaries", output, re.MULTILINE)
    assert not (run.parent / "checked").exists()


def test_initial_parameters_start_another_run_at_step_0(finished):
    """From the checkpoint's loss on, not from that of a new model; other shapes are refused at once."""
    config, run, *_ = finished
    first = RunDirectory(run).metrics()
    given = f"--gin.train.initial_parameters={run}"
    status, output, _ = train(config, "--run-dir", run.parent / "second", given, "--gin.train.steps=1")
    assert status == 0, output
    (line,) = RunDirectory(run.parent / "second").metrics()
    assert line["step"] == 1
    assert line["train/loss"] < (first[0]["train/loss"] + first[-1]["train/loss"]) / 2
    wider = (given, "--gin.LanguageModel.width=64")
    status, output, compilations = train(config, "--run-dir", run.parent / "third", *wider)
    assert (status, compilations) == (2, 0)
    assert "in the checkpoint and" in output and not (run.parent / "third/config.gin").exists()


def test_a_run_without_a_checkpoint_may_start_over_with_another_config(finished):
    """Killed, or stopped by a loss that is no number, before the first save: there is nothing to protect."""
    config, run, *_ = finished
    again = run.parent / "fourth"
    again.mkdir()
    (again / "config.gin").write_text("train.steps = 99\n")
    (again / ".lock").touch()
    (again / "metrics.jsonl").write_text('{"step": 1, "tokens": 1, "time": 0.0, "train/loss": 9.0}\n')
    status, output, _ = train(config, "--run-dir", again, "--gin.train.steps=1")
    assert status == 0, output
    (line,) = RunDirectory(again).metrics()
    assert line["train/loss"] < 9


def test_more_steps_go_on_from_the_checkpoint_and_say_what_changed(finished):
    """Last, since it lengthens the run of the tests above. The next save is due at 8, not after one step."""
    config, run, *_ = finished
    flags = ("--gin.train.steps=9", "--gin.train.checkpoint_every=4")
    status, output, compilations = train(config, "--run-dir", run, *flags)
    assert (status, compilations) == (0, 1), output
    assert "train.steps: 6 -> 9" in output and "train.checkpoint_every: 2 -> 4" in output
    lines = RunDirectory(run).metrics()
    assert [line["step"] for line in lines] == list(range(1, 10))
    assert [line["step"] for line in lines if "eval/bits_per_byte" in line] == [3, 6, 9]
    assert steps(RunDirectory(run).checkpoints)[-2:] == [8, 9]
    assert "train.steps = 9" in RunDirectory(run).config_text
    assert [start["step"] for start in RunDirectory(run).information()["starts"]] == [0, 6]
    assert json.loads((run / "run.json").read_text())["seed"] == 0
