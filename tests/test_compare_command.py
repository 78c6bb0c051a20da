"""scripts/compare.py: run directories in, one page out; what should be equal and is not is said."""

import json
import re
import shutil

import pytest

import eval as eval_command
from scripts import compare as compare_command
from tests import commands
from tests.commands import call


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
    config.write_text(config.read_text().replace("train.seed = 0", "train.seed = 1"))
    assert compare(runs, "one", "two") == 0
    assert "differ in what should be equal: parameters within 2%, data, seed." in capsys.readouterr().out
    page = (runs / "page" / "comparison.html").read_text()
    assert page.count("DIFFERS") == page.count('<tr class="differs">') == 3


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
    names = {path.name for path in (runs / "page").glob("*.png")}
    assert names == {f"{name}.png" for name in ("training", "recall", "recalled_bits", "repeat", "positions")}


@pytest.mark.parametrize(
    "names, message", [(["one", "one"], "given twice"), (["one", "three"], "no run directory")]
)
def test_wrong_input_is_refused(runs, capsys, names, message):
    """One sentence and status 2."""
    assert compare(runs, *names) == 2
    assert message in capsys.readouterr().err


def test_out_is_a_file(runs, capsys):
    """Found before the runs are read."""
    (runs / "page").write_text("")
    for out in ("page", "page/below"):
        arguments = [runs / "one", runs / "two", "--out", runs / out]
        assert call(compare_command, *arguments) == 2
        assert "page is a file; name a directory" in capsys.readouterr().err
