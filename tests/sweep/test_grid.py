"""Which members a sweep has, and what is no sweep."""

import pytest

from seqmodels import registry  # noqa: F401  (what the configs name)
from seqmodels.errors import InputError
from seqmodels.sweep.grid import Member, labels, numbers, recipe

CONFIG = """
train.model = @LanguageModel
LanguageModel.width = 32
LanguageModel.depth = 1
train.data = @RecallAtDistance()
train.optimizer = @slow/AdamW()
train.steps = 2
train.batch_size = 8
train.row_length = 64
"""


@pytest.fixture
def config(tmp_path):
    (tmp_path / "mine.gin").write_text(CONFIG)
    return str(tmp_path / "mine.gin")


def test_members_are_all_rates_with_all_seeds_and_named_by_what_tells_them_apart(config):
    """Two members of one name would share a run directory, and one of them would be skipped as done."""
    made = recipe("mine", config, [], (1e-3, 1e-5), (0, 7))
    assert made.members == tuple(Member("mine", rate, seed) for rate in (1e-3, 1e-5) for seed in (0, 7))
    assert [member.name for member in made.members][1:3] == ["mine_lr0.001_seed7", "mine_lr1e-05_seed0"]
    assert made.choices(made.members[3]) == ["slow/AdamW.learning_rate = 1e-05", "train.seed = 7"]


def test_by_default_rate_and_seed_are_the_configs_own(config):
    """A default of ours would silently train another rate than the config says."""
    flags = ["slow/AdamW.learning_rate = 2e-3", "train.seed = 5"]
    assert recipe("mine", config, flags, None, None).members == (Member("mine", 2e-3, 5),)


def test_without_any_learning_rate_there_is_no_sweep(config):
    with pytest.raises(InputError, match=r"sets no slow/AdamW\.learning_rate: there is no learning rate"):
        recipe("mine", config, [], None, (0,))


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("1e-3,x", float, "'x' is none of the learning rates above 0"),
        ("", float, "'' is none of the learning rates"),
        ("0", float, "'0' is none"),
        ("inf", float, "'inf' is none"),
        ("1e-3,0.001", float, "0.001 is given twice"),
        ("0,-1", int, "'-1' is none of the seeds"),
        ("1,2,1", int, "1 is given twice"),
    ],
)
def test_numbers_that_make_no_grid_are_refused(text, kind, said):
    """A rate of 0 trains nothing; a number given twice makes two members of one name."""
    with pytest.raises(InputError, match=said):
        numbers("--option", text, kind)


def test_configs_of_one_name_are_told_apart_by_their_folders(tmp_path):
    """The label names the run directories: with the same one, one config would overwrite the other."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine.gin").touch()
    files = [str(tmp_path / folder / "mine.gin") for folder in ("a", "b")]
    assert labels(files) == {"a_mine": files[0], "b_mine": files[1]}
    assert labels(files[:1]) == {"mine": files[0]}
    with pytest.raises(InputError, match="given twice"):
        labels([files[0], str(tmp_path / "a" / ".." / "a" / "mine.gin")])
    with pytest.raises(InputError, match="there is no such config file"):
        labels([str(tmp_path / "none.gin")])
