"""Standard output and standard error of a command: whoever reads them cannot end what takes hours.

`train.py ... | head` leaves a pipe that nobody reads, and so does a `tee` that Ctrl-C ends too; a connection
that is lost leaves a terminal that is gone. To write there is an error, in the middle of what was going on.
"""

import contextlib
import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any, TextIO

UNREAD = (errno.EPIPE, errno.EIO)  # the reader of a pipe is gone, a terminal is gone


class OutputError(OSError):
    """Standard output has a reader and takes nothing more, as on a disk that is full."""

    status = 2

    def __str__(self) -> str:
        return f"{self.strerror}."


@contextlib.contextmanager
def guarded(*, for_a_reader: bool) -> Iterator[None]:
    """Inside it, what nobody reads is dropped, and what an encoding lacks is written with a backslash.

    Args:
        for_a_reader: whether the command makes nothing but what it prints; where nobody reads it, it ends,
            with the status of a command that SIGPIPE ends.

    Raises:
        OutputError: from any call that prints.
    """

    def failed(error: OSError) -> None:
        if error.errno not in UNREAD:
            said = f"standard output cannot be written: {error.strerror}"
            raise OutputError(error.errno, said) from None
        if for_a_reader:
            sys.exit(128 + signal.SIGPIPE)

    before = sys.stdout, sys.stderr
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        sys.stdout = _Guarded(sys.stdout, nowhere, failed)
        sys.stderr = _Guarded(sys.stderr, nowhere, lambda _: None)
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before


class _Guarded:
    """In the place of a text stream: leads it nowhere at its first error, and then calls `failed`.

    stream: None where it was closed before the command began.
    """

    def __init__(self, stream: TextIO | None, nowhere: TextIO, failed: Callable[[OSError], None]):
        self._stream, self._nowhere, self._failed = stream or nowhere, nowhere, failed
        if getattr(stream, "errors", None) == "strict":
            stream.reconfigure(errors="backslashreplace")

    def write(self, text: str) -> int:
        """Writes as any text stream."""
        with self._errors():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flushes as any text stream."""
        with self._errors():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            # What is still in the buffer must go somewhere too, at the latest when the process ends.
            os.dup2(self._nowhere.fileno(), self._stream.fileno())
            self._failed(error)
