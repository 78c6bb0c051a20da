"""Keeps a second process out of a directory that a run, or a sweep, is writing."""

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

from seqmodels.errors import InputError

FILE = ".lock"
UNITS = {"day": 86400, "hour": 3600, "minute": 60, "second": 1}


class Lock:
    """Holds a directory until it is released or its process ends, in whatever way.

    The lock is the system's own (`flock`), so none is ever left over: the file that a killed process leaves
    behind locks nothing. Who holds the directory stands in the file, and since when is the file's time.

    Of file systems that several machines share, NFS and most others carry the lock from one to the other.
    Where one binds a single machine (Lustre with `localflock`), a process elsewhere cannot be told from one
    that was killed there. A run that a cluster moves to another machine must go on by itself, so the
    directory is taken over then, with a sentence that names the other process; where there are no locks at
    all, another sentence says so.

    Args:
        path: the directory; it is made where it is missing.
        say: takes the sentences.

    Raises:
        InputError: another process holds the directory, or it cannot be written.
    """

    def __init__(self, path: Path, say: Callable[[str], None] = print):
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._file = open(path / FILE, "a+", encoding="utf-8")  # noqa: SIM115 (held open until the run ends)
        except OSError as error:
            raise InputError(f"--run-dir {path} cannot be written: {error.strerror}.") from None
        self._file.seek(0)
        holder = self._file.read().strip()
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            since = _since(os.fstat(self._file.fileno()).st_mtime, time.time())
            self._file.close()
            holder = holder or "another process"
            raise InputError(
                f"--run-dir {path} is in use by {holder}, {since}; two runs cannot share a directory."
            ) from None
        except OSError as error:
            say(f"{path} lies where there are no locks ({error.strerror}): nothing keeps a second run out.")
        host = os.uname().nodename
        if holder and not holder.endswith(f" on {host}"):
            say(f"{path} was not released by {holder}, which has ended or must be: it is taken over.")
        try:
            self._file.truncate(0)
            self._file.write(f"process {os.getpid()} on {host}\n")
            self._file.flush()
        except OSError as error:  # a full disk
            raise InputError(f"--run-dir {path} cannot be written: {error.strerror}.") from None

    def release(self) -> None:
        """Lets others in."""
        self._file.truncate(0)
        self._file.close()

    def __enter__(self) -> "Lock":
        return self

    def __exit__(self, *_) -> None:
        self.release()


def _since(then: float, now: float) -> str:
    """When that was, and how long ago: "since 14:02 (3 minutes)"; both are Unix times in seconds."""
    ago = max(now - then, 0)
    unit = next((unit for unit, seconds in UNITS.items() if ago >= seconds), "second")
    count = int(ago // UNITS[unit])
    clock = "%H:%M" if ago < UNITS["day"] else "%Y-%m-%d %H:%M"
    return f"since {time.strftime(clock, time.localtime(then))} ({count} {unit}{'' if count == 1 else 's'})"
