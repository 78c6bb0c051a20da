"""How far an evaluation is, and the time left: a live line on a terminal, plain lines elsewhere.

An evaluator makes one pass over its rows, or several, a condition each: how many there will be nobody knows
before, so the time left is that of the pass.
"""

import contextlib
import datetime
import sys
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column

SECONDS_BETWEEN_LINES = 30.0


class EvaluationProgress:
    """Counts the batches of `evaluators` evaluators, one after another."""

    def __init__(self, evaluators: int):
        self._evaluators, self._begun, self._name = evaluators, 0, ""
        self._passes = self._made = self._batches = 0
        self._first_made = self._said = time.monotonic()
        self._console = Console(file=sys.stdout, soft_wrap=True, highlight=False)
        self._live = None
        if self._console.is_terminal:
            text = TextColumn("{task.description}", table_column=Column(no_wrap=True))
            self._live = Progress(text, BarColumn(bar_width=24), console=self._console, transient=True)
            self._task = self._live.add_task("", total=None)
            self._live.start()

    def begins(self, name: str) -> None:
        """Takes which evaluator begins."""
        self._begun, self._name = self._begun + 1, name
        self._passes = self._made = self._batches = 0
        self._show()

    def begins_pass(self, batches: int) -> None:
        """Takes how many batches the next pass has, or some fewer."""
        self._passes, self._made, self._batches = self._passes + 1, 0, batches
        self._show()

    def advance(self) -> None:
        """Takes that a batch is done."""
        self._made += 1
        self._batches = max(self._batches, self._made)
        if self._made == 1:
            self._first_made = time.monotonic()
        self._show()

    def close(self) -> None:
        """Takes the live line away."""
        if self._live is not None:
            self._live.stop()

    def _show(self) -> None:
        if self._live is not None:
            total = self._batches or None  # None: a bar that moves without an end
            self._live.update(self._task, total=total, completed=self._made, description=self._line())
        elif time.monotonic() - self._said > SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            self._console.print(self._line(), markup=False)
            self._console.file.flush()

    def _line(self) -> str:
        place = f"{self._name}, {self._begun} of {self._evaluators}"
        if not self._passes:
            return place
        return f"{place}  pass {self._passes}  batch {self._made:,}/{self._batches:,}  {self._left()}"

    def _left(self) -> str:
        """By the batches behind the first, which may have been compiled for."""
        if self._made < 2:
            return "time left not known yet"
        each = (time.monotonic() - self._first_made) / (self._made - 1)
        left = datetime.timedelta(seconds=round(each * (self._batches - self._made)))
        return f"{left} left of the pass"


# The evaluators, which training calls as well, know nothing of who watches.
_shown: ContextVar[EvaluationProgress | None] = ContextVar("shown", default=None)


@contextlib.contextmanager
def showing(evaluators: int) -> Iterator[None]:
    """Shows what is evaluated inside; without it nothing is shown."""
    shown = EvaluationProgress(evaluators)
    token = _shown.set(shown)
    try:
        yield
    finally:
        _shown.reset(token)
        shown.close()


def begins(evaluator: str) -> None:
    """Says which evaluator begins."""
    shown = _shown.get()
    if shown is not None:
        shown.begins(evaluator)


def begins_pass(batches: int) -> Callable[[], None]:
    """Says how many batches are to be made; returns what is to be called when each of them is done."""
    shown = _shown.get()
    if shown is None:
        return lambda: None
    shown.begins_pass(batches)
    return shown.advance
