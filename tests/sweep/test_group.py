"""Members of a config in turn and as one program: the numbers of runs of their own, and what they leave."""

import json

import jax
import pytest

import eval as eval_command
from seqmodels import registry  # noqa: F401  (what the configs name)
from seqmodels.errors import InputError
from seqmodels.sweep import outcome
from seqmodels.sweep.grid import recipe
from seqmodels.sweep.group import Group
from seqmodels.sweep.together import train_together
from seqmodels.training.checkpoints import steps
from seqmodels.training.run_directory import RunDirectory
from tests.commands import call
from tests.small_run import train_here

CONFIG = """
train.model = @LanguageModel
LanguageModel.width = 32
LanguageModel.depth = 1
LanguageModel.dropout = 0.1
LanguageModel.mixers = (@LinearAttention,)
train.data = @RecallAtDistance()
RecallAtDistance.pairs = 4
RecallAtDistance.fillers = (0, 7)
RecallAtDistance.queries_per_row = 8
train.optimizer = @AdamW()
AdamW.warmup_steps = 2
train.steps = 20
train.batch_size = 8
train.row_length = 32
train.log_every = 1
train.evaluate_every = 20
train.checkpoint_every = 20
"""
RATES, SEEDS = (1e-3, 1e-2, 1e38), (0, 3)
"""At the last rate the loss is soon not finite."""


@pytest.fixture(scope="module", autouse=True)
def _settings_of_jax():
    """A group sets some for its process."""
    names = ("jax_default_matmul_precision",)
    before = {name: getattr(jax.config, name) for name in names}
    yield
    for name, value in before.items():
        jax.config.update(name, value)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(folder, recipe, group, outcomes in turn, outcomes together, what was told) of the same members."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "mine.gin").write_text(CONFIG)
    made = recipe("mine", str(folder / "mine.gin"), [], RATES, SEEDS)
    told = []
    group = Group(made, folder / "turn", lambda member, step: told.append((member, step)))
    group.compile(evaluation_first=True)
    in_turn = {member: group.train(member) for member in made.members}
    other = Group(made, folder / "together", lambda member, step: None)
    together = dict(zip(made.members, train_together(other, made.members), strict=True))
    return folder, made, in_turn, together, told


def losses(folder, member):
    return [line["train/loss"] for line in RunDirectory(folder / member.name).metrics()]


def test_as_one_program_the_losses_of_20_updates_are_those_of_members_in_turn(trained):
    """A key, a rate or a row that went to another member shows in the first updates; and a member whose loss
    is not finite leaves the others be."""
    folder, made, _, _, _ = trained
    seen = []
    for member in made.members:
        if member.learning_rate < 1:
            one, other = losses(folder / "turn", member), losses(folder / "together", member)
            assert len(one) == 20
            assert other == pytest.approx(one, abs=1e-5)
            seen.append(tuple(one))
    assert len(set(seen)) == 4, "rates and seeds change the losses"


def test_a_member_is_the_run_that_its_config_asks_for(trained):
    """The seed and the rate as arguments of the step: the bits of train.py, evaluation included."""
    folder, made, _, _, _ = trained
    member = made.members[3]
    status, _, error = train_here(folder / "turn" / member.name / "config.gin", "--run-dir", folder / "own")
    assert status == 0, error
    timed = ("time", "train/tokens_per_second", "train/step_time", "train/data_wait", "train/mfu")
    own, swept = (
        [
            {tag: value for tag, value in line.items() if tag not in timed}
            for line in RunDirectory(path).metrics()
        ]
        for path in (folder / "own", folder / "turn" / member.name)
    )
    assert own == swept
    assert "eval/recall_area" in own[-1]
    assert (folder / "own" / "operative.gin").read_text() == (
        folder / "turn" / member.name / "operative.gin"
    ).read_text()


def test_a_member_that_diverges_is_recorded_with_its_reason(trained):
    """It would else end the sweep, or be trained again each time."""
    folder, _, in_turn, together, _ = trained
    for where, outcomes in (("turn", in_turn), ("together", together)):
        for member, ended in outcomes.items():
            path = folder / where / member.name
            assert outcome.read(path) == ended
            if member.learning_rate > 1:
                assert "has a loss of" in ended.failed and not ended.values
                assert not steps(path / "checkpoints")
            else:
                assert ended.failed is None and ended.steps == 20
                assert steps(path / "checkpoints") == [20]
                assert ended.values == {
                    tag: value
                    for tag, value in RunDirectory(path).metrics()[-1].items()
                    if tag.startswith("eval/")
                }
    assert {ended.failed is None for ended in in_turn.values()} == {True, False}


def test_progress_is_told_by_member(trained):
    _, made, _, _, told = trained
    assert [step for member, step in told if member == made.members[0]] == list(range(1, 21))


@pytest.mark.slow
def test_a_member_is_evaluated_like_any_run(trained):
    """eval.py needs the config, what it was trained with, and a whole checkpoint."""
    folder, made, _, _, _ = trained
    member = made.members[0]
    path = folder / "together" / member.name
    assert call(eval_command, path, "--suite", "recall") == 0
    summary = json.loads((path / "eval" / "20" / "summary.json").read_text())
    assert summary["provenance"]["seed"] == member.seed


def test_an_interrupted_member_starts_over_and_a_strangers_folder_stays(trained, tmp_path):
    folder, made, _, _, _ = trained
    path = folder / "turn" / made.members[1].name
    (path / outcome.FILE).unlink()
    from seqmodels import config

    loaded = config.load([folder / "mine.gin"])
    run = outcome.begin(path, loaded)
    assert [entry.name for entry in run.path.iterdir()] == ["config.gin"]
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").touch()
    with pytest.raises(InputError, match="in the place of a member's run directory"):
        outcome.begin(tmp_path / "notes", loaded)
