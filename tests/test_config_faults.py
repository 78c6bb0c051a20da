"""Configs that no one meant to write: odd encodings, circles, thousands of lines, the wrong components."""

import time

import gin
import pytest

from seqmodels import config
from seqmodels.errors import InputError
from tests.test_config import BASE

LINE = BASE.count("\n") + 1  # of the first line added


@pytest.fixture(autouse=True)
def _forget():
    yield
    gin.clear_config()


def load(folder, more, *arguments):
    """Loads the base with lines added at its end, and flags."""
    (folder / "run.gin").write_text(BASE + more)
    flags, rest = config.split_arguments(arguments)
    assert not rest
    config.load([folder / "run.gin"], flags)


def refusal(folder, *arguments) -> str:
    with pytest.raises(InputError) as caught:
        load(folder, *arguments)
    assert "\n" not in str(caught.value), "a refusal is one sentence"
    return str(caught.value)


@pytest.mark.parametrize(
    "written",
    [
        BASE.encode("utf-8-sig"),
        BASE.replace("\n", "\r\n").encode(),
        BASE.replace("\n", "\r").encode(),
        BASE.replace(" = ", "\t=\t").encode(),
        BASE.replace("\n", " \f\n\n").encode(),
        BASE.replace("\ntrain.", "\n  train.").encode(),
        b"# \xc3\xa9\n" + BASE.rstrip().encode(),
    ],
    ids=["byte order mark", "CRLF", "CR", "tabs", "form feeds", "indented", "no last line end"],
)
def test_how_an_editor_writes_a_file_does_not_matter(tmp_path, written):
    (tmp_path / "plain.gin").write_text(BASE)
    (tmp_path / "run.gin").write_bytes(written)
    assert config.load([tmp_path / "run.gin"]).text == config.load([tmp_path / "plain.gin"]).text


@pytest.mark.parametrize("written", [BASE.encode("utf-16"), b"\xe9" + BASE.encode("latin-1")])
def test_other_encodings_are_refused(tmp_path, written):
    (tmp_path / "run.gin").write_bytes(written)
    with pytest.raises(InputError, match=r"run\.gin: not UTF-8 text, at byte 0\."):
        config.load([tmp_path / "run.gin"])


def test_a_folder_is_no_config(tmp_path):
    with pytest.raises(InputError, match="this is a folder; name a config file in it"):
        config.load([tmp_path])
    (tmp_path / "run.gin").write_text("include '.'\n")
    with pytest.raises(InputError, match=r"run\.gin:1: there is no file"):
        config.load([tmp_path / "run.gin"])


def test_files_that_include_each_other_are_refused(tmp_path):
    (tmp_path / "a.gin").write_text("include 'b.gin'\n")
    (tmp_path / "b.gin").write_text("\ninclude 'a.gin'\n")
    with pytest.raises(InputError, match=r"b\.gin:2: .*a\.gin includes itself"):
        config.load([tmp_path / "a.gin"])


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("a = %b\nb = (%a, 1)\ntrain.seed = %a", ["b is defined by itself", "%b -> %a -> %b"]),
        ("a = %a\ntrain.seed = %a", ["a is defined by itself"]),
        ("x/Text.corpus = 3", ["x/Text.corpus = 3 is of the wrong type"]),
        ("train.evaluate_every = %gin.macro", ["%gin.macro is not defined"]),
        ("a/train.seed = 3", ["a/train.seed is never used: nothing refers to a/train"]),
        ("seed = 3", ["seed is never used: did you mean train.seed?"]),
        ("train = 3", ["train is never used"]),
        ("größe = 3", ["größe is never used"]),
        ("macro.value = 3", ["there is no 'macro'"]),
        ("LANGUAGEMODEL.dropout = 0.1", ["did you mean 'LanguageModel'?"]),
    ],
)
def test_names_that_lead_nowhere(tmp_path, lines, words):
    message = refusal(tmp_path, lines)
    assert f"run.gin:{LINE}" in message or f"run.gin:{LINE + 1}" in message
    for word in words:
        assert word in message


def test_a_component_that_contains_itself_is_refused(tmp_path):
    """It would be built without end."""
    (tmp_path / "run.gin").write_text(
        BASE.replace("train.data = @Text()", "train.data = @Curriculum()").replace("Text.corpus", "#")
        + "Curriculum.rows = 3\nCurriculum.tasks = (@Curriculum(), @Copy())\n"
    )
    with pytest.raises(InputError, match=r"run\.gin:12: Curriculum\.tasks refers back to itself"):
        config.load([tmp_path / "run.gin"])
    (tmp_path / "run.gin").write_text(
        (tmp_path / "run.gin").read_text().replace("(@Curriculum()", "(@inner/Curriculum()")
        + "inner/Curriculum.tasks = (@Copy(), @Copy())\n"
    )
    config.load([tmp_path / "run.gin"])


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("train.model", "@Text", "one of @LanguageModel."),
        ("train.model", "@LanguageModel()", "one of @LanguageModel."),
        ("train.data", "@Text", "@RecallAtDistance(), "),
        ("train.data", "@evaluate()", "@RecallAtDistance(), "),
        ("train.data", "@gin.singleton()", "there is no 'gin.singleton'"),
        ("train.optimizer", "@Text()", "one of @AdamW(), @Muon()."),
        ("train.optimizer", "AdamW", "'AdamW' is no value; a string stands in quotes, and a name behind @"),
        ("LanguageModel.mixers", "(@AdamW,)", "a tuple (X, ...), each X one of @CompressedAttention, "),
        ("LanguageModel.mixers", "(@LanguageModel,)", "a tuple (X, ...), each X one of "),
        ("LanguageModel.mixers", "(@mamba,)", "did you mean 'Mamba'?"),
    ],
)
def test_a_component_of_the_wrong_kind(tmp_path, name, value, words):
    """Called, it would fail somewhere inside with a traceback."""
    lines = [line for line in BASE.split("\n") if line and not line.startswith(f"{name} ")]
    (tmp_path / "run.gin").write_text("\n".join([*lines, f"{name} = {value}"]))
    with pytest.raises(InputError) as caught:
        config.load([tmp_path / "run.gin"])
    assert "run.gin:" in str(caught.value) and words in str(caught.value)


@pytest.mark.parametrize(
    "value",
    [
        "1e999",
        "-1e999",
        "1e39",
        "1e-39",
        f"{2**31}",
        "(1e999,)",
        f"{2**63}",
        f"-{2**64}",
        "9" * 400,
        "[9223372036854775808]",
    ],
)
def test_numbers_that_cannot_be_computed_with(tmp_path, value):
    tupled = value.startswith(("(", "["))
    name = "Mixture.weights" if tupled else "AdamW.learning_rate"
    assert f"{name} = " in (message := refusal(tmp_path, f"{name} = {value}"))
    assert "is out of range: floats have 32 bits, ints 64" in message and len(message) < 400


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("train.seed = many", "'many' is no value; a string stands in quotes"),
        ("train.seed = nan", "'nan' is no value"),
        ("train.seed 3", "a line is NAME.PARAMETER = VALUE, such as train.steps = 100."),
        ("train.seed = ", "a line is NAME.PARAMETER = VALUE"),
        ("= 3", "a line is NAME.PARAMETER = VALUE"),
        ("train.seed = 'a", "a line is NAME.PARAMETER = VALUE"),
        ("train.seed = (1", "a bracket or quotation mark that is opened here or below is never closed."),
        ("train.seed = '''1", "is never closed."),
        ("train.seed = " + 2000 * "(" + "1" + 2000 * ")", "nested too deeply"),
        ("train.seed = " + "9" * 5000, "is no value"),
        ("from os import path", "'import' is not needed"),
    ],
)
def test_lines_that_are_no_bindings_say_what_would_be_one(tmp_path, line, words):
    message = refusal(tmp_path, line)
    assert "run.gin:" in message and words in message and len(message) < 400


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("train.seed=3\ntrain.steps=4", "train.seed = '3\\ntrain.steps=4' is of the wrong type"),
        ("train.seed=1 2", "train.seed = '1 2' is of the wrong type"),
        ("train.seed=%nothing", "%nothing is not defined"),
        ("include=x.gin", "include is never used"),
        ("train:seed=3", "a line is NAME.PARAMETER = VALUE"),
        ("x y=3", "write --gin.NAME=VALUE, without spaces."),
        ("x\ny=3", "--gin.x y=3: write --gin.NAME=VALUE, without spaces."),
    ],
)
def test_a_flag_is_one_binding(tmp_path, flag, words):
    assert words in refusal(tmp_path, "", f"--gin.{flag}")


def test_spaces_around_a_flag_s_value_do_not_matter(tmp_path):
    load(tmp_path, "", "--gin.train.seed= 3 # note")
    assert gin.query_parameter("train.seed") == 3


def test_thousands_of_lines_take_seconds(tmp_path):
    count = 1500
    lines = [f"m{i} = 'folder/{i}.txt'" for i in range(count)]
    lines += [BASE.replace("@PythonSource()", "@TextFiles()")]
    lines += ["TextFiles.train = (", *(f"    %m{i}," for i in range(count)), ")"]
    (tmp_path / "run.gin").write_text("\n".join(lines))
    start = time.process_time()
    config.load([tmp_path / "run.gin"])
    assert time.process_time() - start < 10
    assert len(gin.query_parameter("TextFiles.train")) == count
    (tmp_path / "run.gin").write_text("\n".join([*lines, "train.seed = %other"]))
    with pytest.raises(InputError) as caught:
        config.load([tmp_path / "run.gin"])
    assert "%other is not defined" in str(caught.value) and len(str(caught.value)) < 1000
