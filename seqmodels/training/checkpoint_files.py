"""The files of a checkpoint, listed with their SHA-256: one wrong bit in any of them is noticed.

The list has the format of `sha256sum`, which checks it too: `cd checkpoints/STEP && sha256sum -c SHA256SUMS`.
"""

import hashlib
from collections.abc import Collection
from pathlib import Path

from seqmodels.errors import InputError

LIST = "SHA256SUMS"


def write_list(directory: Path) -> None:
    """Lists the files of a checkpoint that is written to its end."""
    lines = [f"{_digest(directory / name)}  {name}\n" for name in _names(directory)]
    (directory / LIST).write_text("".join(lines), encoding="utf-8")


def has_list(directory: Path) -> bool:
    """Whether the files are listed; earlier versions listed none.

    Raises InputError where the directory cannot be read.
    """
    try:
        return (directory / LIST).is_file()
    except OSError as error:
        raise InputError(f"{directory} cannot be read: {error.strerror}.") from None


def damage(directory: Path, items: Collection[str] | None = None) -> str | None:
    """What is wrong with the files, in a few words; None where they are those that were written.

    Args:
        directory: of the checkpoint.
        items: of these the files are read, and those beside the items; by default all.
    """
    try:
        if not (directory / LIST).is_file():
            return f"{LIST} is missing"
        listed, rest = _read_list(directory)
        present = set(_names(directory))
        if rest or "" in listed:
            return f"{LIST} has a line that is no checksum and name"
        for name in sorted({*listed, *present}):
            folder, _, below = name.partition("/")
            if below and items is not None and folder not in items:
                continue
            if name not in present:
                return f"{name} is missing"
            if name not in listed:
                return f"{name} is not listed in {LIST}"
            if _digest(directory / name) != listed[name]:
                return f"{name} differs from its checksum"
    except OSError as error:
        return f"{error.filename or 'a file'} cannot be read: {error.strerror}"
    return None


def _names(directory: Path) -> list[str]:
    """The files, save for the list itself and what a file manager leaves hidden."""
    files = (path.relative_to(directory) for path in directory.rglob("*") if path.is_file())
    return sorted(str(file) for file in files if str(file) != LIST and not file.name.startswith("."))


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_list(directory: Path) -> tuple[dict[str, str], str]:
    """The checksum of each file by its name, and what stands behind the last whole line."""
    text = (directory / LIST).read_text(encoding="utf-8", errors="replace")
    *lines, rest = text.split("\n")
    parted = (line.partition("  ") for line in lines)
    return {name: digest for digest, _, name in parted}, rest
