"""The ways a run can end badly, and the exit status of each.

Whatever the user can mend is an `InputError`: one message that says what is wrong, where, and what would be
right. It ends a command with status 2 and without a traceback. Anything else raised is a fault of ours.
"""

import atexit
import contextlib
import gc
import signal
import sys
from collections.abc import Iterator

from seqmodels import standard_streams


class InputError(ValueError):
    """A config, a file or an argument is wrong; the message names what, where, and what would be right."""

    status = 2


class NonFiniteError(Exception):
    """The loss or the gradients are no longer finite."""

    status = 3


class CheckpointWriteError(Exception):
    """A checkpoint could not be written."""

    status = 4


class Interrupted(Exception):
    """A signal ended the run before its last step."""

    def __init__(self, message: str, signal_number: int):
        super().__init__(message)
        self.status = 128 + signal_number  # as a shell reports it


class LostProcessError(Exception):
    """Another process of the run has ended, and this one cannot go on without it."""

    status = 1


@contextlib.contextmanager
def exit_status(*, for_a_reader: bool = False) -> Iterator[None]:
    """Turns the errors above, and Ctrl-C, into one message and their status; others keep their traceback.

    for_a_reader: whether the command makes nothing but what it prints, and ends where nobody reads that.
    """
    # As a process ends, Python looks for garbage in all that was imported, which takes it half a second.
    atexit.register(gc.freeze)
    with standard_streams.guarded(for_a_reader=for_a_reader):
        try:
            yield
            sys.stdout.flush()
        except _KNOWN as error:
            # Gin adds a line for each configurable that the error passed through.
            message = str(error).partition("\n  In call to configurable ")[0]
            kind = "" if isinstance(error, Interrupted) else "error: "
            print(f"{kind}{message}", file=sys.stderr)
            sys.exit(error.status)
        except KeyboardInterrupt:
            print("\ninterrupted.", file=sys.stderr)
            sys.exit(128 + signal.SIGINT)


_KNOWN = (
    InputError,
    NonFiniteError,
    CheckpointWriteError,
    LostProcessError,
    Interrupted,
    standard_streams.OutputError,
)
