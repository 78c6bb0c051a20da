"""If these fail, a shipped data config does not load behind a model's, or gives other data than it says."""

import json
from pathlib import Path

import datasets
import gin
import numpy as np
import pytest

import seqmodels.registry  # noqa: F401
from seqmodels.config import load
from seqmodels.errors import InputError

CONFIGS = Path(__file__).parents[2] / "configs"
FILES = sorted(path.name for path in (CONFIGS / "data").glob("*.gin"))


@pytest.fixture(autouse=True)
def fresh_gin(tmp_path, monkeypatch):
    gin.clear_config()
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "hf"))
    datasets.disable_progress_bars()
    yield
    gin.clear_config()


def flags_for(name, folder):
    """What a user adds: where the text is."""
    lines = [json.dumps({"text": f"text {i} " * 20}) + "\n" for i in range(200)]
    (folder / "texts.jsonl").write_text("".join(lines))
    return {
        "python_source.gin": [],
        "text_files.gin": [f"TextFiles.train = '{folder}/texts.jsonl'"],
    }.get(name, ["HuggingFace.path = 'json'", f"HuggingFace.data_files = '{folder}/texts.jsonl'"])


@pytest.mark.parametrize("name", FILES)
def test_a_data_config_behind_a_model_config_gives_batches(name, tmp_path):
    flags = [*flags_for(name, tmp_path), "Text.tokenizer = @ByteTokenizer()"]
    load([CONFIGS / "mixers" / "transformer.gin", CONFIGS / "data" / name], flags)
    data = gin.query_parameter("train.data").scoped_configurable_fn()
    data.prepare(tmp_path / "cache", lambda line: None)
    batch = next(data.stream(2, 64, seed=0))
    assert batch["tokens"].shape == (2, 64)
    assert np.all(batch["loss_weights"] == 1)
    assert len(data.validation) > 0


@pytest.mark.parametrize("name", FILES)
def test_a_data_config_opens_with_its_command(name):
    commands = [line for line in (CONFIGS / "data" / name).read_text().splitlines()[:5] if "train.py" in line]
    assert len(commands) == 1
    assert commands[0].startswith("#   python train.py configs/") and f" configs/data/{name} " in commands[0]


@pytest.mark.parametrize(
    ("name", "setting"), [("text_files.gin", "TextFiles.train"), ("hugging_face.gin", "HuggingFace.path")]
)
def test_what_must_be_given_is_asked_for(name, setting):
    with pytest.raises(InputError, match=rf"{setting} must be given, for example --gin\.{setting}=VALUE"):
        load([CONFIGS / "mixers" / "transformer.gin", CONFIGS / "data" / name])


@pytest.mark.parametrize(
    ("binding", "message"),
    [
        ("TextFiles.document = 'lines'", r"document = 'lines' .*'file'.*'line'"),
        ("TextFiles.train = 3", "train = 3 is of the wrong type"),
        ("Text.corpus = 'my/texts'", "corpus = 'my/texts' is of the wrong type"),
        ("Text.corpus = @ByteTokenizer()", "corpus"),
    ],
)
def test_wrong_values_are_refused_where_they_are_bound(binding, message, tmp_path):
    flags = [*flags_for("text_files.gin", tmp_path), binding]
    flags = flags[-1:] if binding.startswith("TextFiles.train") else flags
    with pytest.raises(InputError, match=message):
        load([CONFIGS / "mixers" / "transformer.gin", CONFIGS / "data" / "text_files.gin"], flags)
