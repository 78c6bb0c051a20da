"""scripts/compare.py: run directories in, one page out; what should be equal and is not is said."""

import json
import re
import shutil

import pytest

import eval as eval_command
from scripts import compare as compare_command
from tests import commands
from tests.commands import call
from tests.training.saved import no_file_longer_than


@pytest.fixture
def runs(tmp_path, capsys):
    """Two copies of an evaluated text run."""
    run = commands.text_run()
    if not (run / "eval").is_dir():
        assert call(eval_command, run) == 0
    for name in ("one", "two"):
        shutil.copytree(run, tmp_path / name)
    capsys.readouterr()
    return tmp_path


def compare(folder, *names):
    return call(compare_command, *(folder / name for name in names), "--out", folder / "page")


def change(run, **values):
    """Edits run.json."""
    path = run / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def change_recall(run, **values):
    """Edits what summary.json says of recall."""
    (path,) = run.glob("eval/*/summary.json")
    known = json.loads(path.read_text())
    known["suites"]["recall"] |= values
    path.write_text(json.dumps(known))


def sweep(folder, grid, directories):
    """Writes sweep.json: bits per byte by config and rate; of each config's members one has a directory."""
    rates = {"one": 0.003, "two": 0.01}
    names = {(config, rates[name]): name for name, config in directories.items()}
    members = {
        names.get((config, rate), f"{config}_{rate}"): {
            "config": config,
            "learning_rate": rate,
            "seed": 0,
            "values": {"eval/bits_per_byte": value},
        }
        for config, values in grid.items()
        for rate, value in values.items()
    }
    known = {
        "criterion": {"tag": "eval/bits_per_byte"},
        "configs": {config: {"chance": None} for config in grid},
        "members": members,
    }
    (folder / "sweep.json").write_text(json.dumps(known))


def test_equal_runs(runs, capsys):
    """The page stands alone: no figure, picture or style lies in another file."""
    assert compare(runs, "one", "two") == 0
    assert "equal in all that should be equal" in capsys.readouterr().out
    page = (runs / "page" / "comparison.html").read_text()
    pictures = re.findall(r'src="([^"]{0,30})', page)
    assert len(pictures) == 3
    assert all(source.startswith("data:image/png;base64,") for source in pictures)
    assert "DIFFERS" not in page
    markdown = (runs / "page" / "comparison.md").read_text()
    for name in re.findall(r"!\[.*\]\((.*)\)", markdown):
        assert (runs / "page" / name).read_bytes().startswith(b"\x89PNG")
    bits = json.loads((runs / "one/eval/2/summary.json").read_text())["suites"]["perplexity"]["bits_per_byte"]
    assert f"{bits['value']:.3f} ({bits['low']:.3f} to {bits['high']:.3f})" in markdown


def test_what_differs_is_flagged(runs, capsys):
    """3 % more parameters, or other data, silently compared, would be a wrong result."""
    known = json.loads((runs / "two" / "run.json").read_text())
    more = {"total": round(known["parameters"]["total"] * 1.03)}
    change(runs / "two", parameters=more, data={**known["data"], "fingerprint": "other"})
    config = runs / "two" / "operative.gin"
    text = config.read_text().replace("train.seed = 0", "train.seed = 1")
    text = text.replace("LinearAttention.conv_width = None", "LinearAttention.conv_width = 4")
    config.write_text(text.replace("LinearAttention.", "scope/LinearAttention."))
    assert compare(runs, "one", "two") == 0
    assert (
        "differ in what should be equal: parameters within 2%, data, seed, conv width."
        in capsys.readouterr().out
    )
    page = (runs / "page" / "comparison.html").read_text()
    assert page.count("DIFFERS") == page.count('<tr class="differs">') == 4


def test_two_percent_are_equal(runs, capsys):
    """The bound is on the larger of the two, whichever comes first."""
    known = json.loads((runs / "two" / "run.json").read_text())
    change(runs / "one", parameters={"total": round(known["parameters"]["total"] * 1.019)})
    assert compare(runs, "one", "two") == 0
    assert "equal in all that should be equal" in capsys.readouterr().out


def test_a_run_that_was_not_evaluated_shows_what_training_logged(runs, capsys):
    """Its figures are of less text, and must not look like those of eval.py."""
    shutil.rmtree(runs / "two" / "eval")
    assert compare(runs, "one", "two") == 0
    assert "two: figures of the evaluation in training" in capsys.readouterr().out
    assert "in training" in (runs / "page" / "comparison.md").read_text()


def test_text_beside_recall(runs):
    """Runs without a curve in common still make a page, with each curve once."""
    recall = commands.recall_run()
    if not (recall / "eval").is_dir():
        assert call(eval_command, recall) == 0
    shutil.copytree(recall, runs / "recall")
    assert compare(runs, "one", "recall") == 0
    names = {path.stem for path in (runs / "page").glob("*.png")}
    assert names == {"training", "recall", "recalled_bits", "pareto", "repeat", "positions"}


def test_recall_of_the_same_rows_is_paired(runs, capsys):
    """A run against itself differs by nothing, in figures read from the tables of all queries."""
    recall = commands.recall_run()
    if not (recall / "eval").is_dir():
        assert call(eval_command, recall) == 0
    for name in ("first", "second", "third"):
        shutil.copytree(recall, runs / name)
    change_recall(runs / "third", rows_hash="other")
    assert compare(runs, "first", "second", "third") == 0
    assert "Paired, on the same rows" in capsys.readouterr().out
    markdown = (runs / "page" / "comparison.md").read_text()
    (line,) = (line for line in markdown.splitlines() if line.startswith("| recall area, delay | +"))
    assert re.search(r"\| \+0\.000 \(-0\.\d{3} to \+0\.\d{3}\) \| not paired: other rows \|$", line)
    assert "differ in what should be equal: recall rows." in markdown


def test_four_runs_fit_the_terminal(runs, capsys):
    """Rows that break across lines cannot be read; long names are folded, and a fifth run stands below."""
    long = "a_name_that_is_longer_than_its_column_lr0.003_seed0"
    for name in ("three", "four", long):
        shutil.copytree(runs / "one", runs / name)
    assert compare(runs, "one", "two", long, "four", "three") == 0
    lines = capsys.readouterr().out.splitlines()
    table = lines[: next(index for index, line in enumerate(lines) if line.startswith("The runs"))]
    assert max(map(len, table)) <= 100
    starts = [line for line in table if line.startswith("run ")]
    assert [len(line.split()) for line in starts] == [5, 2]


def test_members_of_a_sweep(runs, capsys):
    """Each at the best rate of one grid is fair, though the rates differ; at another it is not."""
    for name, rate in (("one", "0.003"), ("two", "0.01")):
        config = runs / name / "config.gin"
        config.write_text(config.read_text().replace("learning_rate = 0.001", f"learning_rate = {rate}"))
    sweep(runs, {"a": {0.003: 2.0, 0.01: 2.5}, "b": {0.003: 3.0, 0.01: 2.2}}, {"one": "a", "two": "b"})
    assert compare(runs, "one", "two") == 0
    assert "equal in all that should be equal" in capsys.readouterr().out
    page = (runs / "page" / "comparison.md").read_text()
    assert "| learning rate | 0.003, the best of its grid | 0.01, the best of its grid |  |" in page
    assert "| learning-rate grid | 0.003, 0.01 | 0.003, 0.01 |  |" in page
    assert "| seeds of the grid | 0 | 0 |  |" in page
    assert (runs / "page" / "learning_rates.png").is_file()
    assert call(compare_command, runs, "--out", runs / "page_of_sweep") == 0
    assert (runs / "page_of_sweep" / "comparison.md").read_text() == page
    worse = {"a": {0.003: 2.0, 0.01: 2.5}, "b": {0.003: 2.0, 0.01: 2.2}}
    sweep(runs, worse, {"one": "a", "two": "b"})
    assert compare(runs, "one", "two") == 0
    assert "differ in what should be equal: learning rate." in capsys.readouterr().out
    (runs / "sweep.json").write_text("{}")
    assert compare(runs, "one", "two") == 2
    assert "sweep.json is damaged" in capsys.readouterr().err


@pytest.mark.parametrize(
    "names, message", [(["one", "one"], "given twice"), (["one", "three"], "no run directory")]
)
def test_wrong_input_is_refused(runs, capsys, names, message):
    """One sentence and status 2."""
    assert compare(runs, *names) == 2
    assert message in capsys.readouterr().err


def test_a_disk_that_is_full_is_named_with_the_file(runs, capsys):
    with no_file_longer_than(8192):
        assert compare(runs, "one", "two") == 2
    error = capsys.readouterr().err
    assert ".png cannot be written: File too large." in error and "Traceback" not in error


def test_out_is_a_file(runs, capsys):
    """Found before the runs are read."""
    (runs / "page").write_text("")
    for out in ("page", "page/below"):
        arguments = [runs / "one", runs / "two", "--out", runs / out]
        assert call(compare_command, *arguments) == 2
        assert "page is a file; name a directory" in capsys.readouterr().err
