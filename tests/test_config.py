"""The config loader: what gin lets pass is refused in one sentence, with the place and the right name."""

import os
import subprocess
import sys

import gin
import pytest

from seqmodels import config, registry  # noqa: F401  (the names that the configs below use)
from seqmodels.errors import InputError

BASE = """
train.model = @LanguageModel
train.data = @Text()
train.optimizer = @AdamW()
train.steps = 8
train.batch_size = 2
train.row_length = 32
Text.corpus = @PythonSource()
LanguageModel.width = 32
LanguageModel.depth = 2
"""


@pytest.fixture(autouse=True)
def _forget():
    yield
    gin.clear_config()


@pytest.fixture
def load(tmp_path):
    """Loads BASE with lines added at its end, and flags."""

    def loaded(more="", *arguments):
        file = tmp_path / "run.gin"
        file.write_text(BASE + more)
        flags, rest = config.split_arguments(arguments)
        assert not rest
        return config.load([file], flags)

    return loaded


def refusal(load, *arguments) -> str:
    with pytest.raises(InputError) as caught:
        load(*arguments)
    message = str(caught.value)
    assert "\n" not in message, "a refusal is one sentence"
    return message


def test_a_whole_config_loads_and_binds(load):
    load()
    assert gin.query_parameter("train.steps") == 8


LINE = BASE.count("\n") + 1  # of the first line added


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("LanguageModel.widht = 3", ["run.gin:11", "'widht'", "did you mean 'width'"]),
        ("LangaugeModel.width = 3", ["run.gin:11", "'LangaugeModel'", "did you mean 'LanguageModel'"]),
        ("LanguageModel.mixers = (@Mambo,)", ["run.gin:11", "'Mambo'", "did you mean 'Mamba'"]),
        ("LanguageModel.vocab_size = 3", ["run.gin:11", "'vocab_size'"]),
        ("LanguageModel.depth = 3", ["run.gin:11", "bound twice", "run.gin:10"]),
        ("LanguageModel.dropout = '0.1'", ["run.gin:11", "LanguageModel.dropout = '0.1'", "wrong type"]),
        ("LanguageModel.remat = 1", ["run.gin:11", "wrong type", "True or False"]),
        ("LanguageModel.dtype = 'float16'", ["run.gin:11", "wrong type", "'float32', 'bfloat16'"]),
        ("LanguageModel.mixers = @Mamba", ["run.gin:11", "a tuple (X, ...), each X one of @"]),
        ("LanguageModel.mixers = (@Mamba(),)", ["run.gin:11", "wrong type"]),
        ("train.seed = True", ["run.gin:11", "wrong type", "an int"]),
        ("train.log_every = 2.5", ["run.gin:11", "wrong type", "an int"]),
        ("train.profile_steps = (1, 2, 3)", ["run.gin:11", "wrong type"]),
        ("train.seed = None", ["run.gin:11", "wrong type"]),
        ("Mamba.width = 3", ["run.gin:11", "'width'"]),
        ("Muon.momentum = 0.9", ["run.gin:11", "Muon.momentum is never used"]),
        ("eight = 8", ["run.gin:11", "eight is never used"]),
        ("train.seed = %eight", ["run.gin:11", "%eight is not defined"]),
        ("train.seed = %gin.REQUIRED", ["run.gin:11", "train.seed must be given", "--gin.train.seed="]),
        ("train.seed = 1 2", ["run.gin:11"]),
        ("train.seed = [1,", ["run.gin:1"]),
        ("train.seed = [@AdamW] * 3", ["run.gin:11"]),
        ("train.seed", ["run.gin:11"]),
        ("import os", ["run.gin:11", "import"]),
        ("include 'base.gin'", ["run.gin:11", "include must stand above"]),
    ],
)
def test_wrong_lines_are_refused_with_place_and_right_name(load, line, words):
    message = refusal(load, line)
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--gin.LanguageModel.widht=3"], ["--gin.LanguageModel.widht=3", "did you mean 'width'"]),
        (["--gin.train.steps=many"], ["--gin.train.steps", "wrong type"]),
        (["--gin.train.steps=1", "--gin.train.steps=1"], ["bound twice"]),
        (["--gin.train.steps="], ["--gin.NAME=VALUE"]),
        (["--gin.train.steps"], ["--gin.NAME=VALUE"]),
        (["--gin.=3"], ["--gin.NAME=VALUE"]),
        (["--gin.Muon.momentum=0.9"], ["never used"]),
    ],
)
def test_wrong_flags_are_refused(load, arguments, words):
    message = refusal(load, "", *arguments)
    for word in words:
        assert word in message


@pytest.mark.parametrize("name", ["steps", "data", "model", "row_length"])
def test_what_must_be_given_and_is_not_is_named_with_an_example(tmp_path, name):
    file = tmp_path / "run.gin"
    file.write_text("\n".join(line for line in BASE.split("\n") if f"train.{name} " not in line))
    with pytest.raises(InputError, match=rf"train\.{name}|never used"):
        config.load([file])


def test_a_missing_argument_of_a_referred_class_is_named(tmp_path):
    file = tmp_path / "run.gin"
    file.write_text(BASE.replace("LanguageModel.width = 32\n", ""))
    with pytest.raises(InputError, match=r"LanguageModel\.width must be given"):
        config.load([file])


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("LanguageModel.dropout = 0", 0),  # an int is a float
        ("LanguageModel.mixers = [@Mamba]", None),  # a list is a tuple
        ("train.profile_steps = (2, 4)", (2, 4)),
        ("train.evaluate_every = None", None),
    ],
)
def test_values_that_fit_their_types_pass(load, line, value):
    load(line)
    if value is not None:
        assert gin.query_parameter(line.partition(" ")[0]) == value


@pytest.mark.parametrize(
    "flag", ['--gin.AdamW.schedule="wsd"', "--gin.AdamW.schedule='wsd'", "--gin.AdamW.schedule=wsd"]
)
def test_quotes_around_a_flag_s_string_do_not_matter(load, flag):
    load("", flag)
    assert gin.query_parameter("AdamW.schedule") == "wsd"


def test_flags_override_files_and_later_files_override_earlier_ones(tmp_path):
    (tmp_path / "a.gin").write_text(BASE)
    (tmp_path / "b.gin").write_text("train.steps = 9\ntrain.seed = 3")
    config.load([tmp_path / "a.gin", tmp_path / "b.gin"], ["train.seed = 4"])
    assert gin.query_parameter("train.steps") == 9
    assert gin.query_parameter("train.seed") == 4


@pytest.mark.parametrize("start", [".", "configs", "elsewhere"])
def test_includes_are_sought_beside_the_including_file(tmp_path, monkeypatch, start):
    """An include resolved against the working directory works from one place and fails from the others."""
    for folder in ("configs/sub", "elsewhere"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "configs/base.gin").write_text(BASE)
    (tmp_path / "configs/a.gin").write_text("include 'base.gin'\ntrain.steps = 2\n")
    (tmp_path / "configs/sub/b.gin").write_text("include '../base.gin'\ntrain.steps = 3\n")
    monkeypatch.chdir(tmp_path / start)
    for name, steps in (("configs/a.gin", 2), ("configs/sub/b.gin", 3)):
        config.load([tmp_path / name])
        assert gin.query_parameter("train.steps") == steps
        config.load([os.path.relpath(tmp_path / name)])
        assert gin.query_parameter("train.steps") == steps


def test_a_file_that_two_files_include_does_not_undo_the_first(tmp_path):
    (tmp_path / "base.gin").write_text(BASE)
    (tmp_path / "a.gin").write_text("include 'base.gin'\ntrain.steps = 2\n")
    (tmp_path / "b.gin").write_text("include 'base.gin'\ntrain.seed = 3\n")
    config.load([tmp_path / "a.gin", tmp_path / "b.gin"])
    assert gin.query_parameter("train.steps") == 2


def test_a_mistake_in_an_included_file_is_placed_there(tmp_path):
    (tmp_path / "base.gin").write_text(BASE + "train.sed = 1")
    (tmp_path / "a.gin").write_text("include 'base.gin'\n")
    with pytest.raises(InputError, match=r"base\.gin:11: .*did you mean 'seed'"):
        config.load([tmp_path / "a.gin"])


@pytest.mark.parametrize(
    ("text", "words"),
    [("include 'a.gin'\n", "includes itself"), ("include 'none.gin'\n", "a.gin:1: there is no file")],
)
def test_circular_and_missing_includes_are_refused(tmp_path, text, words):
    (tmp_path / "a.gin").write_text(text)
    with pytest.raises(InputError, match=words):
        config.load([tmp_path / "a.gin"])


def test_a_missing_or_binary_config_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="no such config file"):
        config.load([tmp_path / "none.gin"])
    with pytest.raises(InputError, match=r"--gin\.NAME=VALUE"):
        config.load(["lr=1"])
    (tmp_path / "bad.gin").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8"):
        config.load([tmp_path / "bad.gin"])


def test_defaults_of_an_included_file_may_go_unused_and_are_not_saved(tmp_path):
    """A base file may set an optimizer that the including file replaces."""
    (tmp_path / "base.gin").write_text(BASE + "AdamW.beta1 = 0.8\n")
    (tmp_path / "a.gin").write_text("include 'base.gin'\ntrain.optimizer = @Muon()\n")
    loaded = config.load([tmp_path / "a.gin"])
    assert "AdamW" not in loaded.text


SCOPED = """
rate = 0.004
AdamW.learning_rate = %rate
AdamW.clip_norm = None
LanguageModel.mixers = (@narrow/SoftmaxAttention, @SoftmaxAttention)
narrow/SoftmaxAttention.heads = 2
"""


def test_the_saved_text_loads_again_to_the_same_bindings(load, tmp_path):
    first = load(SCOPED)
    (tmp_path / "saved.gin").write_text(first.text)
    again = config.load([tmp_path / "saved.gin"])
    assert again.text == first.text
    assert not again.differences(tmp_path / "saved.gin")


def test_the_saved_text_loads_in_a_fresh_process(load, tmp_path):
    """A saved config that needs what this process happens to have imported is lost."""
    (tmp_path / "saved.gin").write_text(load(SCOPED).text)
    code = f"from seqmodels import config, registry; config.load([{os.fspath(tmp_path / 'saved.gin')!r}])"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_differences_name_old_and_new_values_and_see_through_macros_and_defaults(load, tmp_path):
    saved = tmp_path / "saved.gin"
    saved.write_text(load(SCOPED).text)
    same = load(SCOPED.replace("\nrate = 0.004", "").replace("%rate", "0.004") + "train.seed = 0")
    assert not same.differences(saved), "a macro's value and a default spelled out are no differences"
    other = load(SCOPED.replace("0.004", "0.002"), "--gin.train.seed=1")
    found = {difference.name: (difference.old, difference.new) for difference in other.differences(saved)}
    assert found == {"AdamW.learning_rate": ("0.004", "0.002"), "train.seed": ("0", "1")}
    saved.write_text("")
    without = {difference.name: difference.old for difference in same.differences(saved)}
    assert without["train.steps"] == "not given"


NEAR = "\nLanguageModel.mixers = (@near/SoftmaxAttention,)\nSoftmaxAttention.window = 4\n"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (NEAR, NEAR + "near/SoftmaxAttention.window = None", {"near/SoftmaxAttention.window": ("4", "None")}),
        (NEAR + "near/SoftmaxAttention.window = None", NEAR, {"near/SoftmaxAttention.window": ("None", "4")}),
        (NEAR, NEAR.replace("= 4", "= 8"), {"SoftmaxAttention.window": ("4", "8")}),
        (NEAR, NEAR.replace("\nSoftmax", "\nnear/Softmax"), {}),
        (NEAR + "near/SoftmaxAttention.window = 8", NEAR.replace("= 4", "= 8"), {}),
        (NEAR.replace("near/", "") + "SoftmaxAttention.qk_norm = False", NEAR.replace("near/", ""), {}),
    ],
)
def test_differences_are_of_what_a_scope_gets_wherever_it_is_bound(load, tmp_path, old, new, expected):
    """A scoped default hides an unscoped value: a run would go on with parameters of another architecture."""
    saved = tmp_path / "saved.gin"
    saved.write_text(load(old).text)
    found = {each.name: (each.old, each.new) for each in load(new).differences(saved)}
    assert found == expected


def test_flags_may_be_confined_to_one_root(load, tmp_path):
    """eval.py must not let a flag change the model whose parameters it loads."""
    (tmp_path / "saved.gin").write_text(load().text)
    with pytest.raises(InputError, match=r"--gin\.train\.steps: only evaluate"):
        config.load([tmp_path / "saved.gin"], ["train.steps = 3"], overridable="evaluate")


def test_split_arguments_leaves_the_rest_in_order():
    flags, rest = config.split_arguments(["a.gin", "--gin.train.steps=3", "--run-dir", "x", "--gin.A.b=c d"])
    assert flags == ["train.steps = 3", "A.b = 'c d'"]
    assert rest == ["a.gin", "--run-dir", "x"]
