"""If these fail, a mixture that can be made cannot be trained on, resumed or evaluated by the commands."""

import json

import pytest

import eval as eval_command
import train as train_command
from tests.commands import CONFIG, call, folder, train

SMALL = """
RecallAtDistance.pairs = 2
RecallAtDistance.fillers = (0, 4)
RecallAtDistance.queries_per_row = 4
RecallAtDistance.keys = 8
RecallAtDistance.values = 8
RecallAtDistance.filler_tokens = 2
"""
WITH_TEXT = (
    CONFIG.format(data="Mixture")
    + SMALL
    + """
Mixture.parts = (@Text(), @RecallAtDistance(), @Copy())
Mixture.weights = (2, 1, 1)
Copy.items = 4
Text.corpus = @TextFiles()
TextFiles.train = '{folder}/*.txt'
TextFiles.validation_fraction = 0.4
"""
)
TASKS_ALONE = (
    CONFIG.format(data="Mixture")
    + """
Mixture.parts = (@short/Induction(), @Parity(), @long/Induction())
Mixture.weights = (1, 1, 1)
short/Induction.length = 24
long/Induction.length = 48
"""
)
CURRICULUM = (
    CONFIG.format(data="Curriculum")
    + """
Curriculum.tasks = (@easy/RecallAtDistance(), @hard/RecallAtDistance())
Curriculum.rows = 8
easy/RecallAtDistance.pairs = 2
hard/RecallAtDistance.pairs = 4
"""
)


@pytest.fixture(scope="module")
def config():
    """Of a mixture with 30 short texts, which lie beside the runs."""
    for index in range(30):
        (folder() / f"{index:02}.txt").write_text(f"the text with the number {index} " * (index % 5 + 3))
    return WITH_TEXT.replace("{folder}", str(folder()))


@pytest.mark.parametrize("kind", ["mixture", "curriculum"])
def test_check_resolves_what_several_tasks_make(config, kind, capsys):
    """Shapes, ids and FLOPs, before anything is trained."""
    (folder() / "checked.gin").write_text(config if kind == "mixture" else CURRICULUM)
    assert call(train_command, folder() / "checked.gin", "--check") == 0
    shown = capsys.readouterr().out
    assert ("0.5 Text + 0.25 RecallAtDistance + 0.25 Copy" if kind == "mixture" else "Curriculum") in shown


@pytest.mark.slow
def test_a_mixture_of_tasks_is_evaluated_without_text(capsys):
    """What needs a text is left out in a sentence; asked for alone, it is refused in one."""
    run = train("tasks", TASKS_ALONE)
    assert "eval/recall_area" in json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    assert call(eval_command, run, "--suite", "recall") == 0
    assert "repeat was left out: the mixture holds no text" in capsys.readouterr().out
    assert call(eval_command, run, "--suite", "perplexity") == 2
    assert "none of perplexity, positions can be measured" in capsys.readouterr().err


@pytest.mark.slow
def test_a_mixture_with_text_is_trained_and_both_are_evaluated(config):
    """Text as text and the first task as a task, during training and afterwards."""
    run = train("mixture", config)
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    assert {"eval/recall_area", "eval/perplexity"} <= set(last)
    assert call(eval_command, run) == 0
    suites = json.loads(next(run.glob("eval/*/summary.json")).read_text())["suites"]
    assert {"perplexity", "recall", "memory", "interventions"} <= set(suites)
    assert suites["recall"]["by_delay"]["points"]
    assert call(train_command, folder() / "mixture.gin", "--run-dir", run, "--gin.train.steps=4") == 0
