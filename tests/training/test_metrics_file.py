"""metrics.jsonl: each step once, whatever happened to the process."""

import json
import math
import resource

import pytest

from seqmodels.errors import InputError
from seqmodels.training.metrics_file import MetricsFile, read


def steps(path):
    return [line["step"] for line in read(path)]


def test_lines_are_on_disk_as_soon_as_they_are_written(tmp_path):
    """A run that is killed must leave all it has logged."""
    path = tmp_path / "metrics.jsonl"
    file = MetricsFile(path, 0)
    file.write(1, 32, 5.0, {"train/loss": 0.1})
    assert read(path) == [{"step": 1, "tokens": 32, "time": 5.0, "train/loss": 0.1}]
    file.close()


def test_an_evaluation_joins_the_line_of_its_step(tmp_path):
    path = tmp_path / "metrics.jsonl"
    file = MetricsFile(path, 0)
    file.write(1, 32, 5.0, {"train/loss": 0.1})
    file.write(2, 64, 6.0, {"train/loss": 0.2})
    file.write(2, 64, 7.0, {"eval/loss": 0.3})
    file.write(3, 96, 8.0, {"train/loss": 0.4})
    file.close()
    assert steps(path) == [1, 2, 3]
    assert read(path)[1] == {"step": 2, "tokens": 64, "time": 6.0, "train/loss": 0.2, "eval/loss": 0.3}


def test_a_resumed_run_takes_back_what_lies_beyond_its_checkpoint(tmp_path):
    path = tmp_path / "metrics.jsonl"
    file = MetricsFile(path, 0)
    for step in range(1, 6):
        file.write(step, 32 * step, 0.0, {"train/loss": float(step)})
    file.close()
    file = MetricsFile(path, 3)
    file.write(3, 96, 0.0, {"eval/loss": 9.0})
    file.write(4, 128, 0.0, {"train/loss": 40.0})
    file.close()
    assert steps(path) == [1, 2, 3, 4]
    assert [line["train/loss"] for line in read(path)] == [1.0, 2.0, 3.0, 40.0]
    assert read(path)[2]["eval/loss"] == 9.0


def test_a_line_that_a_kill_cut_short_is_left_out_and_overwritten(tmp_path):
    path = tmp_path / "metrics.jsonl"
    file = MetricsFile(path, 0)
    file.write(1, 32, 0.0, {"train/loss": 1.0})
    file.close()
    with open(path, "ab") as end:
        end.write(b'{"step": 2, "tok')
    assert steps(path) == [1]
    file = MetricsFile(path, 1)
    file.write(2, 64, 0.0, {"train/loss": 2.0})
    file.close()
    assert steps(path) == [1, 2]


def test_an_evaluation_cut_short_leaves_the_line_that_it_was_added_to(tmp_path, monkeypatch):
    """The checkpoint of that step is written by then, so that no later process would write the line again."""
    path = tmp_path / "metrics.jsonl"
    file = MetricsFile(path, 0)
    file.write(1, 32, 0.0, {"train/loss": 1.0})
    file.write(2, 64, 0.0, {"train/loss": 2.0})
    before, states = read(path), []
    put = MetricsFile._put
    monkeypatch.setattr(MetricsFile, "_put", lambda *args: (put(*args), states.append(path.read_bytes())))
    file.write(2, 64, 0.0, {"eval/loss": 3.0, "eval/perplexity": 20.0})
    file.close()
    whole = path.read_bytes()
    assert states[-1] == whole and json.loads(whole.split(b"\n")[1])["eval/perplexity"] == 20.0
    cut = tmp_path / "cut.jsonl"
    for size in range(whole.index(b"eval") - 2, len(whole) + 1):
        cut.write_bytes(states[0][:size])  # the first of the two writes, up to some byte
        assert read(cut) == before, size
    MetricsFile(cut, 2).close()
    assert read(cut) == before


def test_a_disk_that_takes_a_part_of_a_line_is_an_error(tmp_path):
    """A line without its end, and the next one behind it, would make the file unreadable."""
    path = tmp_path / "metrics.jsonl"
    file = MetricsFile(path, 0)
    file.write(1, 32, 0.0, {"train/loss": 1.0})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            file.write(2, 64, 0.0, {"train/loss": 2.0})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    file.close()
    assert path.read_bytes().count(b"\n") == 1 and steps(path) == [1]
    file = MetricsFile(path, 1)
    file.write(2, 64, 0.0, {"train/loss": 2.0})
    file.close()
    assert steps(path) == [1, 2]


def test_values_that_are_no_numbers_come_back_as_they_were(tmp_path):
    path = tmp_path / "metrics.jsonl"
    file = MetricsFile(path, 0)
    file.write(1, 0, 0.0, {"a": math.nan, "b": -math.inf})
    file.close()
    line = json.loads(path.read_text())
    assert math.isnan(line["a"]) and line["b"] == -math.inf


@pytest.mark.parametrize("line", ["garbage", '{"step": 2}', "[]", "\udcff"])
def test_a_damaged_line_is_refused_with_its_place(tmp_path, line):
    """It would end in a traceback, in every command that reads the run."""
    path = tmp_path / "metrics.jsonl"
    whole = '{"step": 1, "tokens": 1, "time": 0.0}'
    path.write_text(f"{whole}\n{line}\n", errors="surrogateescape")
    with pytest.raises(InputError, match=r"metrics\.jsonl:2 is damaged"):
        read(path)


def test_a_file_that_cannot_be_read_is_named_in_a_sentence(tmp_path):
    """A folder in its place stands for rights that are missing, which root always has."""
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(InputError, match=r"metrics\.jsonl cannot be read: Is a directory\."):
        read(tmp_path / "metrics.jsonl")
