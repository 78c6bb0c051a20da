"""How far a sweep is, and the time left: a live line on a terminal, plain lines elsewhere."""

import datetime
import math
import sys
import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column

from seqmodels.sweep.grid import Member
from seqmodels.sweep.outcome import Outcome

SECONDS_BETWEEN_LINES = 30.0


class SweepProgress:
    """Counts updates: members of one sweep take different numbers of them.

    Args:
        updates: of each member that is to be trained.
        finished: members that an earlier call has trained.
        tag, figure: what is said of a finished member, and how it reads.
    """

    def __init__(self, updates: dict[Member, int], finished: int, tag: str, figure: str):
        self._updates, self._made = updates, dict.fromkeys(updates, 0)
        self._finished, self._members = finished, finished + len(updates)
        self._tag, self._figure = tag, figure
        self._began = self._said = time.monotonic()
        self._console = Console(file=sys.stdout, soft_wrap=True, highlight=False)
        self._live = None
        if self._console.is_terminal:
            text = TextColumn("{task.description}", table_column=Column(no_wrap=True))
            self._live = Progress(text, BarColumn(bar_width=24), console=self._console)
            self._task = self._live.add_task(self._line(), total=max(1, sum(updates.values())))
            self._live.start()

    def at(self, member: Member, step: int) -> None:
        """Takes how many updates a member has made."""
        self._made[member] = step
        self._show()

    def ended(self, member: Member, outcome: Outcome) -> None:
        """Takes what became of a member, which is said in a line that stays."""
        self._made[member] = self._updates[member]
        self._finished += 1
        if outcome.failed is not None:
            result = f"failed: {outcome.failed.partition('. ')[0]}"
        else:
            result = f"{self._figure} {outcome.values.get(self._tag, math.nan):.3f}"
        line = f"{self._finished}/{self._members}  {member.name}  {result}  in {outcome.seconds:.1f} s"
        if self._live is None:
            line = f"{line}; {self._left()}"
        self._said = time.monotonic()
        self._console.print(line, markup=False)
        self._console.file.flush()
        self._show()

    def close(self) -> None:
        """Leaves the last line standing."""
        if self._live is not None:
            self._live.stop()

    def __enter__(self) -> "SweepProgress":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def _show(self) -> None:
        if self._live is not None:
            self._live.update(self._task, completed=sum(self._made.values()), description=self._line())
        elif time.monotonic() - self._said > SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            self._console.print(self._line(), markup=False)
            self._console.file.flush()

    def _line(self) -> str:
        made, wanted = sum(self._made.values()), sum(self._updates.values())
        members = f"members {self._finished}/{self._members}"
        return f"{members}  updates {made:,}/{wanted:,}  {self._left()}"

    def _left(self) -> str:
        """By the updates made so far, starting up and compiling included."""
        made, wanted = sum(self._made.values()), sum(self._updates.values())
        if not made:
            return "time left not known yet"
        seconds = (time.monotonic() - self._began) * (wanted - made) / made
        return f"{datetime.timedelta(seconds=round(seconds))} left"
