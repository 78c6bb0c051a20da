"""scripts/generate.py: text streamed in whole characters, the same for the same seed; nonsense refused."""

import io
import json
import os
import re

import numpy as np
import pytest

from scripts import generate as generate_command
from scripts.generate import characters
from seqmodels.data.tokenizers import ByteTokenizer
from tests import commands
from tests.commands import CONFIG, call, unread


@pytest.fixture(autouse=True)
def trained(capsys):
    """The run is there, and what its training printed is read."""
    commands.text_run()
    capsys.readouterr()


def run(*arguments):
    if "--max-new-tokens" not in arguments:
        arguments = ("--max-new-tokens", "12", *arguments)
    return call(generate_command, commands.text_run(), *arguments)


def test_characters_are_streamed_whole():
    """Half a character on a terminal is a broken one; a wrong byte must not crash, nor hold back the rest."""
    ids = [*b"\xc3\xa9", *b"\xf0\x9f\x99\x82", 0xFF, *b"ok"]
    pieces = list(characters(ByteTokenizer(), iter(ids), list(b"before")))
    assert [piece for piece in pieces if piece] == ["é", "\N{SLIGHTLY SMILING FACE}", "\ufffd", "o", "k"]
    assert "".join(pieces) == bytes(ids).decode("utf-8", "replace")
    assert "".join(characters(ByteTokenizer(), iter(b"a\xf0\x9f"), [])) == "a\ufffd"


class MarksIncomplete:
    """A tokenizer that is not byte-level: it shows a mark where a character is incomplete."""

    def decode(self, ids):
        return bytes(ids).decode("utf-8", "replace").encode()


def test_marks_of_the_tokenizer_are_not_streamed():
    """A mark that later becomes a character would stay on the screen."""
    pieces = list(characters(MarksIncomplete(), iter("é€".encode()), []))
    assert [piece for piece in pieces if piece] == ["é", "€"]


def test_a_reader_that_goes_ends_the_text(monkeypatch, capsys):
    """With the status of any command that its reader leaves; behind `head` a traceback would be shown."""
    with unread(monkeypatch, "stdout"):
        assert run("--prompt", "abc") == 141
    assert capsys.readouterr().err == ""


def test_one_seed_one_text(capsys):
    """A sample that cannot be made again cannot be discussed."""
    texts = []
    for seed in (1, 1, 2):
        assert run("--prompt", "abc", "--temperature", "1.5", "--seed", seed) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != texts[2]
    assert texts[0].startswith("abc")
    assert len(texts[0]) > 6


def test_prompt_file_and_interactive_equal_the_prompt(tmp_path, monkeypatch, capsys):
    """Three ways to the same text."""
    (tmp_path / "prompt").write_text("abc")
    assert run("--prompt", "abc") == 0
    expected = capsys.readouterr().out
    assert run("--prompt-file", tmp_path / "prompt") == 0
    assert capsys.readouterr().out == expected
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"abc\n")))
    assert run("--interactive") == 0
    assert capsys.readouterr().out == f"> {expected}> "


def test_a_prompt_may_come_through_a_pipe(capsys):
    """A pipe gives its bytes once: read again to continue it, the prompt would be empty."""
    assert run("--prompt", "abc") == 0
    expected = capsys.readouterr().out
    reading, writing = os.pipe()
    os.write(writing, b"abc")
    os.close(writing)
    assert run("--prompt-file", f"/dev/fd/{reading}") == 0
    os.close(reading)
    assert capsys.readouterr().out == expected


def test_another_tokenizer_than_the_checkpoints_is_refused(capsys):
    """With the file of another run the ids would be read as other text, without a word."""
    tokenizer = "Text.tokenizer = @BytePairTokenizer()\nBytePairTokenizer.vocab_size = 258\n"
    run_dir = commands.train("pairs", commands.text_config() + tokenizer)
    arguments = (run_dir, "--prompt", "ab", "--max-new-tokens", 2)
    assert call(generate_command, *arguments) == 0
    file = run_dir / "tokenizer" / "tokenizer.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"normalizer": {"type": "Lowercase"}}))
    capsys.readouterr()
    assert call(generate_command, *arguments) == 2
    assert re.search(r"pairs/tokenizer holds another tokenizer than .*; restore it", capsys.readouterr().err)
    known = json.loads((run_dir / "run.json").read_text())
    del known["tokenizer"]  # as runs have it that were begun before it was recorded
    (run_dir / "run.json").write_text(json.dumps(known))
    assert call(generate_command, *arguments) == 0


def test_bytes_that_are_no_text_are_continued_as_they_are(monkeypatch, capsys):
    """A terminal hands on whatever bytes were typed or pasted."""
    assert run("--prompt", os.fsdecode(b"a\xff")) == 0
    expected = capsys.readouterr().out
    assert expected.startswith("a\N{REPLACEMENT CHARACTER}")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\xff\n")))
    assert run("--interactive") == 0
    assert capsys.readouterr().out == f"> {expected}> "


def test_the_end_of_a_text_is_learnt(tmp_path, capsys):
    """Documents are packed with their ends between them, and an end that can be foretold ends the text."""
    letters = np.random.default_rng(0).choice(list("abcdefgh"), size=(200, 6))
    (tmp_path / "lines.txt").write_text("".join(f"{''.join(word)}.\n" for word in letters))
    run_dir = commands.train(
        "ends",
        CONFIG.format(data="Text") + f"Text.corpus = @TextFiles()\nTextFiles.train = '{tmp_path}/lines.txt'\n"
        "TextFiles.document = 'line'\nTextFiles.validation_fraction = 0.2\n",
        "--gin.train.steps=60",
        "--gin.AdamW.learning_rate=1e-2",
    )
    capsys.readouterr()
    assert call(generate_command, run_dir, "--prompt", "ab", "--max-new-tokens", 40, "--temperature", 0) == 0
    assert re.fullmatch(r"ab[a-h]{0,8}\.\n", capsys.readouterr().out)


def test_empty_prompt_begins_a_document(capsys):
    """A sample from nothing is the plainest look at what was learned."""
    assert run("--prompt", "") == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "--prompt --prompt-file --interactive is required"),
        (["--prompt", "a", "--interactive"], "not allowed with argument --prompt"),
        (["--prompt", "a", "--temperature", "-1"], "temperature is -1.0"),
        (["--prompt", "a", "--top-k", "0"], "top_k is 0"),
        (["--prompt", "a", "--top-p", "2"], "top_p is 2.0"),
        (["--prompt", "a", "--max-new-tokens", "0"], "max_new_tokens is 0"),
        (["--prompt", "a", "--step", "9"], "no checkpoint of step 9"),
        (["--prompt-file", "no/such/file"], "no/such/file cannot be read"),
        (["--prompt", "a", "--gin.train.steps=1"], "unrecognized arguments"),
    ],
)
def test_contradictions_are_refused(capsys, arguments, message):
    """One sentence and status 2, before anything is compiled."""
    assert run(*arguments) == 2
    assert message in capsys.readouterr().err


def test_a_run_without_text_is_refused(capsys):
    """Ids of a recall task read as bytes would be noise that looks like a bad model."""
    assert call(generate_command, commands.recall_run(), "--prompt", "a") == 2
    assert "was trained on no text" in capsys.readouterr().err
