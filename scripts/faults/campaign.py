"""Runs that are struck again and again, two at a time, each against the bits of one that was left alone."""

import itertools
import random
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.context import BaseContext
from pathlib import Path

from scripts.faults import configurations, plan
from scripts.faults.bits import differences
from scripts.faults.process import Fault, events
from scripts.faults.run import LostError, Run
from scripts.faults.tally import Tally

AT_ONCE = 2


class Campaign:
    """Runs of some configurations in turn.

    Args:
        names: of the configurations.
        folder: takes all that the runs write.
        programs: the cache of compiled programs.
        context: how processes start.
        tally: is told of every kill and of every run.
        seed: of all that is drawn.
        kills_a_run: at most seven.
    """

    def __init__(
        self,
        names: Sequence[str],
        folder: Path,
        programs: Path,
        context: BaseContext,
        tally: Tally,
        seed: int = 0,
        kills_a_run: int = len(plan.SIGNALS),
    ):
        self._names, self._folder, self._programs, self._context = names, folder, programs, context
        self._tally, self._seed, self._kills_a_run = tally, seed, kills_a_run
        self._lock = threading.Lock()

    def strike(self, kills: int) -> None:
        """Goes on until so many processes were struck, and their runs have ended."""
        names = self._names[: -(-kills // self._kills_a_run)]
        self._configs = configurations.write(names, self._folder / "configs")
        self._left, self._turns = kills, enumerate(itertools.cycle(names), 1)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            self._references = dict(zip(names, pool.map(self._reference, names), strict=True))
            list(pool.map(lambda _: self._work(), range(AT_ONCE)))

    def _reference(self, name: str) -> Run:
        """A run that is left alone. It is the second such: it finds its programs compiled, so that its times
        are those of the runs to come, and the first is its control.
        """
        control, reference = self._new(name, "control"), self._new(name, "reference")
        for run in (control, reference):
            run.finish()
        found = differences(control.folder, reference.folder)
        self._tally.ended(name, "left alone, twice", found, reference.folder)
        return reference

    def _new(self, name: str, what: str) -> Run:
        config = self._configs[name]
        return Run(config, self._folder / f"{config.stem}_{what}", self._programs, self._context)

    def _work(self) -> None:
        """Takes runs while there are kills left; kills that came too late, after the end, are made up for."""
        while True:
            with self._lock:
                number, name = next(self._turns)
                count = min(self._left, self._kills_a_run)
                self._left -= count
            if not count:
                return
            reference, run = self._references[name], self._new(name, f"run{number}")
            chance = random.Random(f"{self._seed} {number}")
            faults = plan.draw(chance, events(reference.trace), count)
            try:
                struck = self._strike(name, run, faults)
                run.finish()
            except LostError as error:
                self._tally.gone(name, error)
                continue
            found = differences(reference.folder, run.folder)
            self._tally.ended(name, f"in {struck + 1} processes", found, run.folder)
            with self._lock:
                self._left += count - struck

    def _strike(self, name: str, run: Run, faults: list[Fault]) -> int:
        """Strikes a run by each fault in turn; returns how many found it still going."""
        struck = 0
        for fault in faults:
            before = run.half_written()
            if run.strike(fault):
                struck += 1
                self._tally.struck(name, fault, run.step(), bool(run.half_written() - before))
        return struck
