"""Files on this machine: found by path, folder or pattern, and told apart by their content."""

import hashlib
import os
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from fnmatch import filter as matching
from glob import has_magic
from pathlib import Path

from seqmodels.errors import InputError

SUFFIXES = (".txt", ".jsonl", ".ndjson", ".json", ".parquet", ".arrow")
"""What a folder is searched for, also with a compression's suffix behind."""

COMPRESSED = (".gz", ".zst", ".zstd")


def find_files(patterns: str | Sequence[str], setting: str) -> list[Path]:
    """The files that paths, folders and glob patterns name: each file once, sorted for each pattern.

    A folder is searched through for `SUFFIXES`. Names that begin with a dot are passed over unless they are
    named. Links are followed; a folder to which several paths lead is searched once.

    Raises:
        InputError: a pattern names nothing, or what cannot be listed or is no file: nothing is left out in
            silence. `setting` is what to name it by.
    """
    found: dict[Path, Path] = {}
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        try:
            files = sorted(_named(pattern, setting))
            for path in files:
                if not path.is_file():
                    what = "a link to nothing" if path.is_symlink() else "no regular file"
                    raise InputError(f"{setting} = {pattern!r}: {path} is {what}.")
                found.setdefault(path.resolve(), path)
        except OSError as error:
            raise InputError(f"{setting} = {pattern!r}: {error.filename}: {error.strerror}.") from None
    return list(found.values())


def content_suffix(path: Path) -> str:
    """The suffix of a file's name in small letters, before that of a compression."""
    return Path(path.stem if path.suffix.lower() in COMPRESSED else path.name).suffix.lower()


def hash_files(paths: Sequence[Path]) -> str:
    """A hash of the files' bytes, in their order; names do not count. InputError: one cannot be read."""
    whole = hashlib.blake2b(digest_size=16)
    for path in paths:
        try:
            with open(path, "rb") as file:
                whole.update(hashlib.file_digest(file, hashlib.blake2b).digest())
        except OSError as error:
            raise unreadable(path, error) from None
    return whole.hexdigest()


def file_state(path: Path) -> tuple[int, int, int]:
    """What differs once a file was written to or replaced. InputError: it is gone."""
    try:
        about = path.stat()
    except OSError as error:
        raise unreadable(path, error) from None
    return about.st_size, about.st_mtime_ns, about.st_ino


def unreadable(path: Path, error: OSError) -> InputError:
    """The sentence for a file that the system does not give."""
    return InputError(f"cannot read {path}: {error.strerror or error}.")


def _named(pattern: str, setting: str) -> list[Path]:
    """What a pattern names, folders apart."""
    if not pattern.strip():
        raise InputError(f"{setting} = {pattern!r} names no file.")
    path = Path(os.path.expanduser(pattern))
    if path.is_dir():
        return _in_folder(path, setting)
    if os.path.lexists(path):
        return [path]
    if not has_magic(str(path)):
        raise InputError(f"{setting} = {pattern!r}: there is no such file (looked from {Path.cwd()}).")
    anchor = Path(path.anchor)
    files = [file for file in _expand(anchor, path.relative_to(anchor).parts) if not file.is_dir()]
    if not files:
        raise InputError(f"{setting} = {pattern!r} matches no file (looked from {Path.cwd()}).")
    return files


def _in_folder(folder: Path, setting: str) -> list[Path]:
    files = [path for path in _expand(folder, ["**"]) if not path.is_dir()]
    wanted = [path for path in files if content_suffix(path) in SUFFIXES]
    if not wanted:
        kinds = Counter(path.suffix or path.name for path in files)
        holds = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common(5)) or "no file"
        raise InputError(
            f"{setting} = {str(folder)!r} is a folder without {' '.join(SUFFIXES)} files (it holds {holds}): "
            f"name others by a pattern, as in {str(folder / '**' / '*.md')!r}."
        )
    return wanted


def _expand(start: Path, parts: Sequence[str]) -> Iterator[Path]:
    """What the parts of a pattern match below a path.

    Python's `glob` passes over folders that it may not list, and runs in circles where links lead back up.
    """
    if not parts:
        if os.path.lexists(start):
            yield start
        return
    first, *rest = parts
    if first == "**":
        for folder in _folders(start):
            yield from _expand(folder, rest or ["*"])
    elif not has_magic(first):
        yield from _expand(start / first, rest)
    elif start.is_dir():
        for name in matching(os.listdir(start), first):
            if first.startswith(".") or not name.startswith("."):
                yield from _expand(start / name, rest)


def _folders(start: Path) -> Iterator[Path]:
    """A folder and all below it, the nearest first; each real one once, under the first of its paths."""
    seen, waiting = set(), deque([start] if start.is_dir() else [])
    while waiting:
        folder = waiting.popleft()
        if folder.resolve() in seen:
            continue
        seen.add(folder.resolve())
        yield folder
        below = sorted(name for name in os.listdir(folder) if not name.startswith("."))
        waiting += [folder / name for name in below if (folder / name).is_dir()]
