"""A worker process of a sweep: takes members over a pipe, trains them, and tells how far they are."""

import gc
import signal
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import jax

from seqmodels import registry  # noqa: F401  (what a config can name)
from seqmodels.errors import CheckpointWriteError, InputError
from seqmodels.sweep.grid import Member, Recipe
from seqmodels.sweep.group import Group
from seqmodels.sweep.outcome import Outcome
from seqmodels.sweep.together import train_together
from seqmodels.training.compilation import use_cache
from seqmodels.training.hardware import check_platform, pin

MENDABLE = (InputError, CheckpointWriteError)


class Task(NamedTuple):
    """Members of one config, to be trained in turn or as one program; others: workers on the same config."""

    recipe: Recipe
    members: tuple[Member, ...]
    others: int
    together: bool


class At(NamedTuple):
    """How many updates a member has made."""

    member: Member
    step: int


class Ended(NamedTuple):
    """What became of a member."""

    member: Member
    outcome: Outcome


class Done(NamedTuple):
    """The task is done, or what ended the worker: an error that the user can mend, or a traceback of ours."""

    error: Exception | None = None
    fault: str | None = None


def work(pipe: Connection, folder: Path, cores: list[int] | None) -> None:
    """Does tasks until there are no more; ends too where the process that gives them has ended.

    Args:
        pipe: gives Tasks; takes At, Ended and Done.
        folder: of the sweep.
        cores: that the process may use; None: all.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group: the first process decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.freeze()  # what the server imported would be looked through, and copied page by page for it
    if cores is not None:
        pin(cores)
    use_cache(least_seconds=0.0)  # another worker will soon need the smallest program too
    try:
        _serve(pipe, folder)
    except _OrphanedError:
        return
    except MENDABLE as error:
        _send(pipe, Done(error=_plain(error)))
    except Exception:
        _send(pipe, Done(fault=traceback.format_exc()))


def platform() -> str:
    """Where this process would compute, asked in one that ends then: a device may serve one process alone.

    Raises InputError where JAX_PLATFORMS asks for what is not there.
    """
    check_platform()
    return jax.default_backend()


def _serve(pipe: Connection, folder: Path) -> None:
    group, label = None, None
    while True:
        task = _receive(pipe)
        if task.recipe.label != label:
            group = None
            jax.clear_caches()  # a program takes tens of memory maps, of which a process has some thousands
            group = Group(task.recipe, folder, lambda member, step: _send(pipe, At(member, step)))
            label = task.recipe.label
            if not task.together:
                group.compile(evaluation_first=task.others % 2 == 1)
        if task.together:
            outcomes = train_together(group, task.members)
            for member, outcome in zip(task.members, outcomes, strict=True):
                _send(pipe, Ended(member, outcome))
        else:
            for member in task.members:
                _send(pipe, Ended(member, group.train(member)))
        _send(pipe, Done())


class _OrphanedError(Exception):
    """The process that gives the tasks has ended."""


def _receive(pipe: Connection) -> Task:
    try:
        return pipe.recv()
    except (EOFError, ConnectionError):
        raise _OrphanedError from None


def _send(pipe: Connection, message: At | Ended | Done) -> None:
    try:
        pipe.send(message)
    except ConnectionError:
        raise _OrphanedError from None


def _plain(error: Exception) -> Exception:
    """The error as its own class: gin raises one of a new class in its place, which cannot travel."""
    kind = next(kind for kind in MENDABLE if isinstance(error, kind))
    return kind(str(error))
