"""The folder for what can be made again: learned tokenizers and token stores."""

import os
import tempfile
from pathlib import Path

from seqmodels.errors import InputError


def cache_folder(cache_dir: Path | None) -> Path:
    """The argument, else $SEQMODELS_CACHE, else ~/.cache/seqmodels."""
    return Path(cache_dir or os.environ.get("SEQMODELS_CACHE") or Path.home() / ".cache" / "seqmodels")


def work_folder(place: Path) -> Path:
    """A new folder beside `place`, to be filled and renamed: whoever looks there finds all or nothing."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="making-", dir=place.parent))
    except OSError as error:
        raise InputError(
            f"cannot write to the cache {place.parent} ({error.strerror}): set SEQMODELS_CACHE to a folder "
            "that can be written."
        ) from None
