"""The commands as a user calls them, and two tiny runs to call them on."""

import atexit
import contextlib
import functools
import os
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

import seqmodels.evaluation.evaluate  # noqa: F401  (registers before the first config is loaded)
import train as train_command

CONFIG = """
train.model = @LanguageModel
LanguageModel.width = 32
LanguageModel.depth = 1
LanguageModel.mixers = (@LinearAttention,)
train.optimizer = @AdamW()
AdamW.learning_rate = 1e-3
train.steps = 2
train.batch_size = 8
train.row_length = 64
train.evaluate_every = 2
train.data = @{data}()
"""


def call(command, *arguments):
    """The exit status of a command, run in this process."""
    before, sys.argv = sys.argv, [command.__name__, *map(str, arguments)]
    try:
        command.main()
    except SystemExit as end:
        return end.code
    finally:
        sys.argv = before
    return 0


@contextlib.contextmanager
def unread(monkeypatch, name):
    """Inside it a standard stream is a pipe that nobody reads."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    with open(write_end, "w", encoding="utf-8") as pipe, monkeypatch.context() as patch:
        patch.setattr(sys, name, pipe)
        yield


@functools.cache
def folder():
    """Where the runs lie, for this process; with a token cache of their own."""
    made = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    os.environ["SEQMODELS_CACHE"] = str(made / "cache")
    return made


def train(name, config, *flags):
    """The directory of a run of two steps."""
    (folder() / f"{name}.gin").write_text(config)
    assert call(train_command, folder() / f"{name}.gin", "--run-dir", folder() / name, *flags) == 0
    return folder() / name


@functools.cache
def text_run():
    """Trained on 60 documents of random letters, of which some are held out."""
    generator = np.random.default_rng(0)
    for index in range(60):
        letters = generator.choice(list("abcdefgh \n"), size=int(generator.integers(60, 400)))
        (folder() / f"{index}.txt").write_text("".join(letters))
    return train("text", text_config())


def text_config():
    return CONFIG.format(data="Text") + (
        f"Text.corpus = @TextFiles()\nTextFiles.train = '{folder()}/*.txt'\n"
        "TextFiles.validation_fraction = 0.4\n"
    )


@functools.cache
def recall_run():
    return train("recall", CONFIG.format(data="RecallAtDistance"))


def events(folder):
    """{tag: [(step, value)]} of all event files in a folder, as TensorBoard reads them."""
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    found = {}
    for file in folder.glob("events.out.tfevents.*"):
        for event in EventFileLoader(str(file)).Load():
            for value in event.summary.value:
                found.setdefault(value.tag, []).append((event.step, value))
    return found
