"""Whatever a config says, it is loaded and what it names can be built, or one sentence refuses it."""

import re
import tempfile
from pathlib import Path

import gin
from hypothesis import example
from hypothesis import strategies as st

from seqmodels import config
from seqmodels.errors import InputError
from seqmodels.language_model import abstract
from seqmodels.training.settings import configured
from tests.fuzzed_configs import BASE, NAMES, configs, damaged_configs, flags
from tests.fuzzing import fuzz

OWNERS = "|".join(sorted({name.partition(".")[0] for name in NAMES}))
PLACE = re.compile(rf"run\.gin(:\d+)?: |--gin\.|\b({OWNERS})\.\w+")


def load(text: str, arguments: list[str]) -> str | None:
    """The refusal of a config, or None where all that it names can be made."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.gin"
        file.write_bytes(text.encode("utf-8", "surrogatepass"))
        try:
            bound, rest = config.split_arguments(arguments)
            assert not rest
            loaded = config.load([file], bound)
            again = Path(folder) / "saved.gin"
            again.write_text(loaded.text, encoding="utf-8")
            assert config.load([again]).text == loaded.text
            settings = configured()
            abstract(settings.model, settings.data.vocab_size)
        except InputError as error:
            return str(error).partition("\n  In call to configurable ")[0]
        finally:
            gin.clear_config()
    return None


def check(message: str | None) -> None:
    """A refusal is one sentence that names a file and line, a flag, or a parameter."""
    if message is not None:
        assert "\n" not in message and message.endswith((".", "?"))
        assert PLACE.search(message), message
        assert len(message) < 2000


def test_the_base_of_all_these_configs_loads():
    assert load("\n".join(f"{name} = {value}" for name, value in BASE.items()), []) is None


@fuzz(campaign=500, text=configs())
def test_a_config_loads_or_is_refused_in_one_sentence(text):
    """A page of traceback hides the one line that is wrong."""
    check(load(text, []))


@fuzz(campaign=250, text=damaged_configs)
def test_a_damaged_config_loads_or_is_refused_in_one_sentence(text):
    """The same for a file that an editor, a merge or a copy left in pieces."""
    check(load(text, []))


@fuzz(campaign=250, arguments=st.lists(flags, min_size=1, max_size=3))
@example(arguments=["--gin.train.se\ned=3"])
@example(arguments=["--gin.train.seed=(3,\n)"])
def test_flags_are_taken_or_refused_in_one_sentence(arguments):
    """The same for what a shell made of a command line."""
    check(load("\n".join(f"{name} = {value}" for name, value in BASE.items()), arguments))
