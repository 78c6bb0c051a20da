"""eval.py: a run directory in; figures, tables, pictures and events out, or one sentence and status 2."""

import csv
import json
import os
import shutil
import struct

import pytest

import eval as eval_command
from seqmodels.evaluation import progress
from tests import commands
from tests.commands import call, events


@pytest.fixture
def text_run(tmp_path):
    """A copy that no other test has evaluated."""
    return shutil.copytree(commands.text_run(), tmp_path / "text", ignore=shutil.ignore_patterns("eval"))


@pytest.fixture
def recall_run():
    return commands.recall_run()


@pytest.fixture(autouse=True)
def every_batch_is_counted_on_before(monkeypatch):
    """In every test here: a bar that ends early, or never, is a time left that is false."""
    begins_pass, passes = progress.begins_pass, []

    def counting(batches):
        advance, counts = begins_pass(batches), {"expected": batches, "made": 0}
        passes.append(counts)

        def advance_and_count():
            counts["made"] += 1
            advance()

        return advance_and_count

    monkeypatch.setattr(progress, "begins_pass", counting)
    yield
    assert all(counts["made"] == counts["expected"] > 0 for counts in passes), passes


def summary(run):
    return json.loads((run / "eval" / "2" / "summary.json").read_text())


def is_picture(path):
    data = path.read_bytes()
    width, height = struct.unpack(">II", data[16:24])
    return data.startswith(b"\x89PNG") and width > 400 and height > 300


def test_text_run(text_run, monkeypatch, capsys):
    """The same model, text and settings must give the figure that training logged, and from any folder."""
    monkeypatch.chdir(text_run.parent)
    assert call(eval_command, text_run) == 0
    found = summary(text_run)
    perplexity = found["suites"]["perplexity"]
    logged = [json.loads(line) for line in (text_run / "metrics.jsonl").read_text().splitlines()]
    assert found["tokens_seen"] == logged[-1]["tokens"] > 0
    bits = perplexity["bits_per_byte"]
    assert bits["value"] == pytest.approx(logged[-1]["eval/bits_per_byte"], rel=1e-5)
    assert bits["low"] < bits["value"] < bits["high"]
    assert perplexity["protocol"] == "disjoint(64)"
    assert 2.5 < perplexity["byte_models"]["bits_per_byte"]["order_2"] < 5
    assert found["provenance"]["trained_on"] == found["provenance"]["evaluated_on"]
    assert found["model"]["parameters"] > 0

    lines = list(csv.DictReader((text_run / "eval" / "2" / "positions.csv").read_text().splitlines()))
    assert lines[0]["first_position"] == "1"
    assert is_picture(text_run / "eval" / "2" / "positions.png")
    assert is_picture(text_run / "eval" / "2" / "repeat.png")
    printed = capsys.readouterr().out.splitlines()
    assert max(map(len, printed)) <= 100 or "written" in printed[-1]
    assert any(line.startswith("bits per byte") for line in printed)
    assert any("order-2 byte model" in line for line in printed)


def test_loss_of_every_token_on_request(text_run):
    """What a token was conditioned on cannot be seen in a mean; by default nobody wants the file."""
    import pyarrow.parquet

    path = text_run / "eval" / "2" / "tokens.parquet"
    assert call(eval_command, text_run, "--suite=perplexity") == 0
    assert not path.exists()
    assert call(eval_command, text_run, "--suite=perplexity", "--gin.evaluate.per_token=True") == 0
    table = pyarrow.parquet.read_table(path)
    found = summary(text_run)["suites"]["perplexity"]
    assert table.num_rows == found["tokens_scored"] + found["end_of_text_targets"]
    assert table["position"][0].as_py() == 0 and table["conditioning_id"][0].as_py() == 256


def test_pairs_of_a_training_text_that_streams_are_not_counted(text_run, monkeypatch, capsys):
    """Without counts every repeated pair would pass for one that only the context knows."""
    import seqmodels.evaluation.evaluate as module

    def streaming(run, data, say):
        prepare(run, data, say)
        data.train = None

    prepare = module.prepare_data
    monkeypatch.setattr(module, "prepare_data", streaming)
    assert call(eval_command, text_run, "--suite=text") == 0
    assert "ngram_hits was left out: the training text streams" in capsys.readouterr().out
    assert set(summary(text_run)["suites"]) == {"repeat"}


def test_second_call_replaces_and_another_suite_adds(text_run):
    """Two event files of one evaluation draw each point twice; a new suite must not erase the others."""
    assert call(eval_command, text_run) == 0
    first = events(text_run / "eval")
    assert len(first["eval/bits_per_byte"]) == 1
    step, _ = first["eval/bits_per_byte"][0]
    assert step == summary(text_run)["tokens_seen"]
    assert first["eval/positions"][0][1].tensor.string_val[2].startswith(b"\x89PNG")
    assert call(eval_command, text_run) == 0
    assert {tag: len(points) for tag, points in events(text_run / "eval").items()} == dict.fromkeys(first, 1)
    assert call(eval_command, text_run, "--suite", "stateful,strided", "--step", "best") == 0
    assert {"perplexity", "stateful", "strided"} <= set(summary(text_run)["suites"])
    assert set(events(text_run / "eval")) == {*first} | {
        f"eval/{name}_{protocol}"
        for name in ("loss", "bits_per_byte", "perplexity", "tokens_scored")
        for protocol in ("stateful", "strided")
    }


def test_settings_of_the_evaluation_can_be_given(text_run):
    """The window is the evaluation's own; the training length stays that of the run."""
    flags = ("--gin.evaluate.row_length=32", "--gin.evaluate.batch_size=3", "--suite=perplexity")
    assert call(eval_command, text_run, *flags) == 0
    assert summary(text_run)["suites"]["perplexity"]["protocol"] == "disjoint(32)"


def test_recall_run(recall_run, capsys):
    """Every figure beside its chance, count and interval; every query in the table."""
    import pyarrow.parquet

    assert call(eval_command, recall_run) == 0
    found = summary(recall_run)["suites"]["recall"]
    for point in found["by_delay"]["points"] + found["by_interference"]["points"]:
        assert point["accuracy"]["low"] <= point["accuracy"]["value"] <= point["accuracy"]["high"]
        assert point["chance_of_value"] == 1 / 128
        assert point["queries"] == 512
    table = pyarrow.parquet.read_table(recall_run / "eval" / "2" / "recall.parquet")
    assert {"distance", "interference", "fillers", "pairs", "query_index", "row", "nll_bits"} <= set(
        table.column_names
    )
    parts = table.column("part").to_pylist()
    points = len(found["by_delay"]["points"]) + len(found["by_interference"]["points"])
    assert sum(part in ("delay", "interference") for part in parts) == points * 512 * 20
    asked = [cell["queries"] for cell in found["map"]["cells"]]
    assert parts.count("map") == 20 * sum(asked)
    assert parts.count("all pairs") == 20 * sum(
        point["queries"] for point in found["recalled_bits"]["by_pairs"]
    )
    for name in ("recall", "recall_map", "recalled_bits", "recall_answers"):
        assert is_picture(recall_run / "eval" / "2" / f"{name}.png")
        assert events(recall_run / "eval")[f"eval/{name}"]
    printed = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in printed if "written" not in line and "evaluating" not in line) <= 100
    assert any(line.startswith("recall capacity") for line in printed)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--suite", "perplexy"], "no suite 'perplexy'; for this run there are: perplexity"),
        (["--step", "7"], "no checkpoint of step 7"),
        (["--step", "newest"], "no checkpoint of step newest"),
        (["--gin.train.steps=3"], "only evaluate and what it refers to"),
        (["--gin.evaluate.rows=3"], "rows"),
        (
            ["--gin.evaluate.split=test"],
            "evaluate.split is 'test'; for text data it must be one of validation",
        ),
        (["--gin.evaluate.scope=all"], "evaluate.scope is 'all'; it must be one of full, scheduled"),
        (
            ["--gin.evaluate.split=train", "--gin.evaluate.corpus=@TextFiles()"],
            "leave evaluate.corpus out",
        ),
        (["--gin.evaluate.row_length=0"], "evaluate.row_length = 0"),
        (["--gin.evaluate.row_length=1000000000000"], "evaluate.row_length = 1000000000000 tokens take"),
        (["--gin.evaluate.batch_size='many'"], "batch_size"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(text_run, capsys, arguments, message):
    """A traceback, or a figure of something else than what was asked for, would each be worse."""
    assert call(eval_command, text_run, *arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_a_folder_that_cannot_be_written_is_refused_before_the_evaluation(text_run, monkeypatch, capsys):
    """Its figures would be lost after all the time that they took."""
    access = os.access
    for given in ("", "eval", "eval/2"):
        (text_run / given).mkdir(exist_ok=True)
        denied = text_run / given
        monkeypatch.setattr(
            os, "access", lambda path, mode, denied=denied: path != denied and access(path, mode)
        )
        assert call(eval_command, text_run, "--suite=perplexity") == 2
        error = capsys.readouterr().err
        assert f"cannot be written: {denied} is read-only or no directory" in error, given
    monkeypatch.setattr(os, "access", access)
    shutil.rmtree(text_run / "eval")
    (text_run / "eval").write_text("")
    assert call(eval_command, text_run, "--suite=perplexity") == 2
    printed = capsys.readouterr()
    assert "eval is read-only or no directory" in printed.err and "evaluating" not in printed.out


def test_no_run_directory(tmp_path, capsys):
    """A missing folder, a folder that is no run, and a file."""
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "nothing", tmp_path, tmp_path / "file"):
        assert call(eval_command, path) == 2
        assert str(path) in capsys.readouterr().err


def test_changed_data_is_refused(text_run, capsys):
    """On other text than it was validated on, a model may be tested with what it was trained on."""
    extra = commands.folder() / "extra.txt"
    extra.write_text("other text")
    try:
        assert call(eval_command, text_run) == 2
    finally:
        extra.unlink()
    assert "was trained on other data" in capsys.readouterr().err


def test_other_text_by_name(text_run, tmp_path, capsys):
    """Other text may be named, but not the text of training."""
    for index in range(30):
        (tmp_path / f"{index}.txt").write_text("abc " * (20 + index))
    corpus = "--gin.evaluate.corpus=@other/TextFiles()"
    files = f"--gin.other/TextFiles.train={tmp_path}/*.txt"
    assert call(eval_command, text_run, "--suite=perplexity", corpus, files) == 0
    provenance = summary(text_run)["provenance"]
    assert provenance["trained_on"] != provenance["evaluated_on"]
    copied = f"--gin.other/TextFiles.validation={commands.folder()}/*.txt"
    assert call(eval_command, text_run, "--suite=perplexity", corpus, files, copied) == 2
    assert "documents of evaluate.corpus are among those" in capsys.readouterr().err
