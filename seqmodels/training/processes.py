"""Several processes that train one model: how they find one another, agree, and end together.

Who waits for a process that has left waits in vain. So what one of them finds wrong is told to all before
they wait for one another again (`agreement`), and who fails alone leaves at once (`joined`): the others then
lose their connection to it, and end with one sentence.
"""

import contextlib
import hashlib
import os
import sys
import traceback
from collections.abc import Iterator

import jax
import numpy as np
from jax.experimental import multihost_utils

from seqmodels.errors import InputError, Interrupted, LostProcessError, NonFiniteError, exit_status

ADDRESS, NUMBER, IDENTITY = "JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"
LONGEST_MESSAGE = 2048  # bytes

# What all processes raise at the same point: they part as after a run that is done.
_COMMON = (InputError, NonFiniteError, Interrupted)


@contextlib.contextmanager
def joined() -> Iterator[None]:
    """Inside it the processes that JAX_COORDINATOR_ADDRESS names train together; without it one trains alone.

    JAX_NUM_PROCESSES and JAX_PROCESS_ID count them; without these the cluster's own variables do. To be
    entered before any device is used.

    Raises:
        InputError: the variables make no sense, or the processes did not find one another.
    """
    if not _join():
        yield
        return
    try:
        with leaving_if_lost():
            yield
    except _COMMON:
        raise
    except BaseException as error:
        _leave(error)


@contextlib.contextmanager
def leaving_if_lost() -> Iterator[None]:
    """Ends this process at once when another is gone: a save in the background would wait for that one."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        if "Gloo" not in str(error):
            raise
        message = "another process of the run has ended; start all again to go on from the last checkpoint."
        _leave(LostProcessError(message))


def largest(value: int) -> int:
    """The largest value that any process passes; all processes wait for one another."""
    return max(_gather(np.int32(value)).tolist())


@contextlib.contextmanager
def agreement() -> Iterator[None]:
    """What is wrong for one process ends all of them: they leave the block together, or with an InputError.

    All wait for one another at its end, and so must not inside it.
    """
    mistake = None
    try:
        yield
    except InputError as error:
        mistake = error
    messages = _gather_texts(str(mistake or ""))
    if mistake is not None:
        raise mistake
    for number, message in enumerate(messages):
        if message:
            raise InputError(f"process {number}: {message}")


def check_same(what: str, value: str) -> None:
    """Raises InputError in all processes unless all pass the same value."""
    digest = hashlib.blake2b(value.encode(errors="surrogatepass"), digest_size=16)  # a path may not be UTF-8
    digests = _gather_texts(digest.hexdigest())
    others = [number for number, digest in enumerate(digests) if digest != digests[0]]
    if others:
        listed = ", ".join(map(str, others))
        raise InputError(
            f"{what} of process {listed} differs from that of process 0; start all with the same command."
        )


def _join() -> bool:
    """Whether the environment names several processes; if so, they have found one another."""
    counts = {name: os.environ[name] for name in (NUMBER, IDENTITY) if name in os.environ}
    if ADDRESS not in os.environ:
        if counts:
            raise InputError(f"{next(iter(counts))} needs {ADDRESS}, which should be HOST:PORT of process 0.")
        return False
    host, _, port = os.environ[ADDRESS].rpartition(":")
    if not host or not port.isdecimal():
        raise InputError(f"{ADDRESS}={os.environ[ADDRESS]} should be HOST:PORT of process 0.")
    for name, value in counts.items():
        if not value.isdecimal():
            raise InputError(f"{name}={value} should be a whole number.")
    number, identity = (int(counts[name]) if name in counts else None for name in (NUMBER, IDENTITY))
    if number is not None and identity is not None and identity >= number:
        raise InputError(f"{IDENTITY}={identity} should be below {NUMBER}={number}: processes count from 0.")
    # It would take SIGTERM from us (`Interruption`) and swallow it.
    jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(num_processes=number, process_id=identity)
    except (RuntimeError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(f"the processes did not meet at {ADDRESS}={host}:{port}: {reason}") from None
    return True


def _leave(error: BaseException) -> None:
    """Ends this process at once: a farewell would wait for processes that wait for this one."""
    try:
        with exit_status():
            raise error
    except SystemExit as end:
        status = end.code
    except BaseException:
        traceback.print_exc()
        status = 1
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def _gather_texts(text: str) -> list[str]:
    """The texts of all processes, by number."""
    encoded = text.encode(errors="backslashreplace")[:LONGEST_MESSAGE].ljust(LONGEST_MESSAGE, b"\0")
    rows = _gather(np.frombuffer(encoded, np.uint8))
    return [row.tobytes().rstrip(b"\0").decode(errors="ignore") for row in rows]


def _gather(value: np.ndarray) -> np.ndarray:
    """The values of all processes `[processes, ...]`, which wait for one another."""
    if jax.process_count() == 1:
        return value[None]
    with jax.transfer_guard("allow"):
        return multihost_utils.process_allgather(value)
