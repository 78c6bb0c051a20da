"""What became of the runs of a campaign: a line a kill and a line a run as they happen, and a total."""

import threading
import time
from collections import Counter
from collections.abc import Callable

from scripts.faults.process import Fault


class Tally:
    """Counts and says what several threads tell.

    Attributes:
        kills: how many processes were struck, by signal.
        inside_saves: how many of them left a checkpoint half written.
        runs, lost, differing: how many runs there were, could not go on, ended with other bits.
    """

    def __init__(self, say: Callable[[str], None] = print):
        self.kills: Counter[str] = Counter()
        self.inside_saves = self.runs = self.lost = self.differing = 0
        self._say, self._lock, self._began = say, threading.Lock(), time.perf_counter()

    def struck(self, name: str, fault: Fault, step: int, half_written: bool) -> None:
        """A process was struck.

        Args:
            name: of the configuration.
            fault: what struck it.
            step: that its run goes on from.
            half_written: it left a checkpoint unfinished.
        """
        with self._lock:
            self.kills[fault.signal.name] += 1
            self.inside_saves += half_written
            instant = f"{fault.event:<10} {fault.step:>2} + {fault.delay:6.3f} s"
            inside = ", inside a save" if half_written else ""
            self._say(
                f"{self.kills.total():>4}  {name:<31} {fault.signal.name:<7}  {instant}  "
                f"goes on from {step:>2}{inside}"
            )

    def ended(self, name: str, how: str, differences: list[str], where: object) -> None:
        """A run has reached its end, with these differences from another of its config."""
        with self._lock:
            self.runs += 1
            self.differing += bool(differences)
            verdict = f"differs in {', '.join(differences)}: {where}" if differences else "the same bits"
            self._say(f"      {name:<31} {how}: {verdict}")

    def gone(self, name: str, why: Exception) -> None:
        """A run is lost."""
        with self._lock:
            self.runs += 1
            self.lost += 1
            self._say(f"      {name:<31} LOST: {why}")

    def total(self) -> str:
        """All of it in a line."""
        signals = ", ".join(f"{count} {name}" for name, count in self.kills.most_common())
        minutes = (time.perf_counter() - self._began) / 60
        return (
            f"{self.kills.total()} kills ({signals}; {self.inside_saves} inside a save) of {self.runs} runs "
            f"in {minutes:.1f} minutes: {self.lost} lost runs, {self.differing} with differing bits"
        )
