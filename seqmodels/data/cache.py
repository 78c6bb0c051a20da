"""The folder for what can be made again: learned tokenizers and token stores."""

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from seqmodels.errors import InputError

_ADVICE = "set SEQMODELS_CACHE to a folder that can be written and has room"


def cache_folder(cache_dir: Path | None) -> Path:
    """The argument, else $SEQMODELS_CACHE, else ~/.cache/seqmodels. InputError: there is no home either."""
    chosen = cache_dir or os.environ.get("SEQMODELS_CACHE")
    try:
        return Path(chosen or Path.home() / ".cache" / "seqmodels")
    except RuntimeError:
        raise InputError(f"there is no home folder for the cache: {_ADVICE}.") from None


@contextlib.contextmanager
def work_folder(place: Path) -> Iterator[Path]:
    """A new folder beside `place`, to be filled and renamed: whoever looks there finds all or nothing.

    What is left in it is deleted. It has the rights of any new folder, since a cache may be shared.

    Raises:
        InputError: the cache cannot be written to, or is full.
    """
    work = place.parent / f"making-{secrets.token_hex(8)}"
    try:
        work.mkdir(parents=True)
        yield work
    except OSError as error:
        reason = error.strerror or "no room left"  # numpy's own error for a short write has no number
        raise InputError(f"cannot write to the cache {place.parent} ({reason}): {_ADVICE}.") from None
    finally:
        shutil.rmtree(work, ignore_errors=True)
