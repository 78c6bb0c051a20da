"""The worker processes of a sweep, and the members dealt out to them.

The process that deals computes nothing: no device is made in it, so that workers may be forked, one to a
core, and that a signal is answered at once.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import connection
from pathlib import Path
from typing import Any

from seqmodels.sweep import worker
from seqmodels.sweep.grid import Member, Recipe
from seqmodels.sweep.outcome import Outcome
from seqmodels.sweep.processes import context
from seqmodels.sweep.worker import At, Done, Ended, Task
from seqmodels.training.hardware import cores

SECONDS_TO_END = 10.0


def platform() -> str:
    """Where JAX would compute; asked in a process of its own, since a device may serve one process alone.

    Raises InputError where JAX_PLATFORMS asks for what is not there.
    """
    with ProcessPoolExecutor(1, mp_context=context()) as asked:
        return asked.submit(worker.platform).result()


class Deck:
    """The members still to be trained, by config.

    A worker keeps to its config, whose step it has compiled. One without takes the config that has the most
    members left for each worker on it.
    """

    def __init__(self, members: Sequence[tuple[Recipe, Sequence[Member]]], *, together: bool):
        self._recipes = {recipe.label: recipe for recipe, _ in members}
        self._left = {recipe.label: list(own) for recipe, own in members if own}
        self._on: dict[Any, str] = {}
        self._together = together

    def deal(self, to: Any) -> tuple[Recipe, tuple[Member, ...], int] | None:
        """What a worker does next, and how many others are on its config; None where nothing is left."""
        label = self._on.pop(to, None)
        if label not in self._left:
            if not self._left:
                return None
            label = max(self._left, key=self._share)
        own = self._left[label]
        taken, rest = (own, []) if self._together else (own[:1], own[1:])
        self._left[label] = rest
        if not rest:
            del self._left[label]
        others = self._busy(label)
        self._on[to] = label
        return self._recipes[label], tuple(taken), others

    def _share(self, label: str) -> tuple[float, int]:
        """Members left for each worker on a config and one more; of equals, one that nobody has compiled."""
        busy = self._busy(label)
        return len(self._left[label]) / (1 + busy), -busy

    def _busy(self, label: str) -> int:
        return list(self._on.values()).count(label)


def train(
    deck: Deck,
    folder: Path,
    *,
    workers: int,
    pinned: bool,
    together: bool,
    at: Callable[[Member, int], None],
    ended: Callable[[Member, Outcome], None],
) -> None:
    """Trains the members of a deck in worker processes, which have ended on return, however it comes about.

    Args:
        deck: the members.
        folder: of the sweep.
        workers: processes.
        pinned: share out the cores among them, each to one of them.
        together: each task is one program.
        at: takes how many updates a member has made.
        ended: takes what became of a member.

    Raises:
        InputError, CheckpointWriteError: from a worker.
        RuntimeError: a worker failed otherwise, or was killed.
    """

    def give(pipe: connection.Connection) -> bool:
        dealt = deck.deal(pipe)
        if dealt is not None:
            pipe.send(Task(*dealt, together))
        return dealt is not None

    with _processes(folder, workers, pinned) as processes:
        busy = {pipe: process for pipe, process in processes.items() if give(pipe)}
        while busy:
            for pipe in connection.wait(list(busy)):
                try:
                    message = pipe.recv()
                except EOFError:
                    process = busy[pipe]
                    process.join(SECONDS_TO_END)
                    reason = f"a worker of the sweep ended with status {process.exitcode}"
                    raise RuntimeError(f"{reason}; the same command goes on without it.") from None
                match message:
                    case At(member, step):
                        at(member, step)
                    case Ended(member, outcome):
                        ended(member, outcome)
                    case Done(error=None, fault=None):
                        if not give(pipe):
                            del busy[pipe]
                    case Done(error=None, fault=fault):
                        raise RuntimeError(f"a worker of the sweep failed:\n{fault}")
                    case Done(error=error):
                        raise error


@contextlib.contextmanager
def _processes(folder: Path, workers: int, pinned: bool) -> Iterator[dict[connection.Connection, Any]]:
    """Worker processes by the pipe to each; they end with the block."""
    available, made = cores(), context()
    started: dict[connection.Connection, Any] = {}
    try:
        for number in range(workers):
            own = available[number % len(available) :: workers] if pinned else None
            ours, theirs = made.Pipe()
            process = made.Process(target=worker.work, args=(theirs, folder, own), daemon=True)
            process.start()
            theirs.close()  # so that the end of the worker is the end of the pipe
            started[ours] = process
        yield started
    finally:
        for process in started.values():
            process.terminate()
        for pipe, process in started.items():
            process.join(SECONDS_TO_END)
            if process.is_alive():
                process.kill()
                process.join()
            pipe.close()
