"""How the processes of a sweep start, and how a signal stops it. Imports nothing that takes time."""

import contextlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from seqmodels.errors import Interrupted

WORKER = "seqmodels.sweep.worker"
_FORKS = sys.platform.startswith("linux")


def context() -> Any:
    """The start method.

    Linux: forked from a server that has imported the package, once for all. Elsewhere forking what has used
    the system's libraries is not safe, and each process imports for itself.
    """
    return multiprocessing.get_context("forkserver" if _FORKS else "spawn")


def warm_up() -> None:
    """Lets the server import while this process does other things."""
    if _FORKS:
        context().set_forkserver_preload([WORKER])
        # The server finds the package where this process does, from whatever folder it is called.
        package = str(Path(__file__).resolve().parents[2])
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
        forkserver.ensure_running()


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Turns the first SIGINT or SIGTERM inside into an Interrupted; while that is dealt with, others wait."""

    def stop(number: int, _: Any) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        raise Interrupted("interrupted; the same command goes on with the members that are not done.", number)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
