"""The ways a run can end badly, and the exit status of each.

Whatever the user can mend is an `InputError`: one message that says what is wrong, where, and what would be right.
It ends a command with status 2 and without a traceback. Anything else that is raised is a fault of ours.
"""

import contextlib
import sys
from collections.abc import Iterator


class InputError(ValueError):
    """The input is wrong: a config, a file, an argument. The message names what, where, and what would be right."""

    status = 2


class NonFiniteError(Exception):
    """The loss or the gradients are no longer finite."""

    status = 3


class CheckpointWriteError(Exception):
    """A checkpoint could not be written."""

    status = 4


@contextlib.contextmanager
def exit_status() -> Iterator[None]:
    """Turns the errors above into one message on stderr and their exit status; others keep their traceback."""
    try:
        yield
    except (InputError, NonFiniteError, CheckpointWriteError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.status)
