"""train.py in a process that sends itself a signal at a chosen instant, and writes down what it does when.

Imports nothing that takes time, so that a process begins with the imports of train.py.
"""

import hashlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


class Event(NamedTuple):
    """What a process did: "start", "update", "save", "evaluation" or "exit".

    step: updates made. seconds: since the process began. batch: a hash of what an update was trained on.
    """

    name: str
    step: int
    seconds: float
    batch: str = "-"


class Fault(NamedTuple):
    """A signal, sent `delay` seconds after the first event of a name at or after a step."""

    signal: signal.Signals
    event: str
    step: int
    delay: float


def events(trace: Path) -> list[Event]:
    """What the processes of a run did, one after the other."""
    lines = map(str.split, trace.read_text().splitlines())
    return [Event(name, int(step), float(seconds), batch) for name, step, seconds, batch in lines]


def train(arguments: list[str], fault: Fault | None, folder: Path, programs: Path) -> None:
    """Runs train.py with these arguments and exits with its status.

    Args:
        arguments: of the command line.
        fault: None leaves the process to itself.
        folder: takes output.txt, trace.txt and the token cache.
        programs: the cache of compiled programs.
    """
    began = time.perf_counter()
    output = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(output, 1)
    os.dup2(output, 2)
    trace = os.open(folder / "trace.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    waiting = [] if fault is None else [fault]

    def note(name: str, step: int, batch: str = "-") -> None:
        os.write(trace, f"{name} {step} {time.perf_counter() - began:.4f} {batch}\n".encode())
        if waiting and waiting[0].event == name and waiting[0].step <= step:
            send = threading.Timer(waiting[0].delay, os.kill, (os.getpid(), waiting.pop().signal))
            send.daemon = True
            send.start()

    note("start", 0)
    os.environ["SEQMODELS_CACHE"] = str(folder / "cache")
    os.environ |= {"HF_HOME": str(folder / "cache"), "HF_HUB_OFFLINE": "1"}
    import jax

    import train as command

    jax.config.update("jax_compilation_cache_dir", str(programs))
    _watch(note)
    sys.argv = ["train.py", *arguments]
    try:
        command.main()
    finally:
        note("exit", 0)


def _watch(note: Callable[..., None]) -> None:
    """Has the events noted as they begin."""
    from seqmodels.training.checkpoints import Checkpoints
    from seqmodels.training.evaluator import Evaluator
    from seqmodels.training.job import Job
    from seqmodels.training.recorder import Recorder

    taken = [""]

    def take(batch: dict[str, Any]) -> None:
        whole = hashlib.blake2b(digest_size=8)
        for name in sorted(batch):
            whole.update(batch[name].tobytes())
        taken[0] = whole.hexdigest()

    _before(Job, "place", take)
    _before(Recorder, "add", lambda step, _: note("update", step, taken[0]))
    _before(Checkpoints, "save", lambda step, *_: note("save", step))
    _before(Evaluator, "__call__", lambda step, _: note("evaluation", step))


def _before(owner: type, name: str, tell: Callable[..., None]) -> None:
    original = getattr(owner, name)

    def method(self: Any, *arguments: Any) -> Any:
        tell(*arguments)
        return original(self, *arguments)

    setattr(owner, name, method)
