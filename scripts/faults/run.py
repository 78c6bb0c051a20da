"""A run of one config, process after process."""

from multiprocessing.context import BaseContext
from pathlib import Path

from scripts.faults.process import Fault, train
from seqmodels.training.checkpoints import steps

SECONDS = 300  # that a process may take


class LostError(Exception):
    """A run cannot go on."""


class Run:
    """A run in a folder of its own, which takes its run directory, its output and its trace.

    Args:
        config: what is trained.
        folder: of the run.
        programs: the cache of compiled programs, shared with others.
        context: how a process starts.
    """

    def __init__(self, config: Path, folder: Path, programs: Path, context: BaseContext):
        folder.mkdir(parents=True)
        self.folder, self.directory = folder, folder / "run"
        self.output, self.trace = folder / "output.txt", folder / "trace.txt"
        self._config, self._programs, self._context = config, programs, context

    def strike(self, fault: Fault) -> bool:
        """Goes on in a process that a fault ends; returns whether it did not reach its own end before.

        Raises:
            LostError: it ended otherwise.
        """
        status = self._process(fault)
        if status not in (0, -fault.signal, 128 + fault.signal):
            raise LostError(f"a process ended with status {status}: {self.output}")
        return status != 0

    def finish(self) -> None:
        """Goes on to the end.

        Raises:
            LostError: it cannot, or a checkpoint was damaged.
        """
        status = self._process(None)
        if status:
            raise LostError(f"the run went on and ended with status {status}: {self.output}")
        if "is damaged" in self.output.read_text():
            raise LostError(f"a checkpoint was damaged: {self.output}")

    def step(self) -> int:
        """Of the newest checkpoint, 0 before the first: what the next process goes on from."""
        return max(steps(self.directory / "checkpoints"), default=0)

    def half_written(self) -> set[tuple[str, int]]:
        """The checkpoints that were begun and not finished, by name and time."""
        folder = self.directory / "checkpoints"
        entries = folder.iterdir() if folder.is_dir() else ()
        return {(each.name, each.stat().st_mtime_ns) for each in entries if not each.name.isdecimal()}

    def _process(self, fault: Fault | None) -> int | None:
        """The exit status of train.py in a process of its own, or minus the signal that ended it."""
        arguments = [str(self._config), "--run-dir", str(self.directory)]
        process = self._context.Process(target=train, args=(arguments, fault, self.folder, self._programs))
        process.start()
        process.join(SECONDS)
        if process.is_alive():
            process.kill()
            process.join()
            raise LostError(f"a process did not end within {SECONDS} s: {self.output}")
        return process.exitcode
