"""The three places where a run's figures go: metrics.jsonl, TensorBoard's event file, the terminal."""

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from seqmodels.errors import CheckpointWriteError
from seqmodels.training.best import CRITERIA
from seqmodels.training.dashboard import layout
from seqmodels.training.events import EventFile
from seqmodels.training.metrics_file import MetricsFile, read
from seqmodels.training.run_directory import RunDirectory
from seqmodels.training.terminal import Terminal

SYNC_SECONDS = 5.0  # between waits for the disk, which takes milliseconds each time


class Log:
    """Writes scalars and texts of a run that goes on after `step` updates; closes the terminal too.

    What an earlier process logged beyond `step` is taken back. What a call has written outlives the process,
    and after some seconds the machine.

    Raises:
        CheckpointWriteError: from any call, when the disk does not take a line.
    """

    def __init__(self, run: RunDirectory, step: int, terminal: Terminal):
        with _write_errors("was not opened"):
            self._metrics = MetricsFile(run.metrics_file, step)
            self._events = EventFile(run.path, step, read(run.metrics_file))
        self._terminal, self._synced = terminal, time.monotonic()

    def begin(self, config_text: str, hyperparameters: dict[str, Any], kind: str) -> None:
        """Writes what TensorBoard shows beside the curves: the config, the row in the table of runs, and the
        charts that runs on data of this kind are compared by.
        """
        with _write_errors("was not begun"):
            self._events.text("config", config_text, 0)
            self._events.layout(layout(kind))
            self._events.hyperparameters(hyperparameters, ("train/loss", *CRITERIA))

    def scalars(self, step: int, tokens: int, values: dict[str, float]) -> None:
        """Adds scalars by tag after `step` updates on `tokens` tokens."""
        now = time.time()
        with _write_errors(f"of step {step} was not written"):
            self._events.scalars(step, tokens, now, values)
            self._metrics.write(step, tokens, now, values)  # last: what stands here stands there too
            if time.monotonic() > self._synced + SYNC_SECONDS:
                self._events.sync()
                self._metrics.sync()
                self._synced = time.monotonic()

    def text(self, tag: str, text: str, step: int) -> None:
        """Adds a text to TensorBoard."""
        with _write_errors(f"of step {step} was not written"):
            self._events.text(tag, text, step)

    def show(self, step: int, values: dict[str, float], seconds_left: float) -> None:
        """Shows progress on the terminal."""
        with _write_errors(f"of step {step} was not shown"):
            self._terminal.show(step, values, seconds_left)

    def show_evaluation(self, step: int, values: dict[str, float]) -> None:
        """Shows the main figures of an evaluation on the terminal."""
        with _write_errors(f"of step {step} was not shown"):
            self._terminal.show_evaluation(step, values)

    def say(self, text: str) -> None:
        """Prints a line that stays on the terminal."""
        with _write_errors("was not shown"):
            self._terminal.say(text)

    def close(self) -> None:
        """Closes all three."""
        self._terminal.close()
        with _write_errors("was not closed"):
            self._events.close()
            self._metrics.close()


@contextlib.contextmanager
def _write_errors(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CheckpointWriteError(f"the log {what}: {error.strerror}.") from error
