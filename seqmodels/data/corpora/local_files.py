"""Files on this machine: found by path, folder or pattern, and read whatever they are compressed with."""

import gzip
import hashlib
import io
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from glob import glob, has_magic
from pathlib import Path

from seqmodels.errors import InputError

SUFFIXES = (".txt", ".jsonl", ".ndjson", ".json", ".parquet", ".arrow")
"""What a folder is searched for, also with a compression's suffix behind."""

_COMPRESSED = (".gz", ".zst", ".zstd")
_GZIP_MAGIC, _ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


def find_files(patterns: str | Sequence[str], setting: str) -> list[Path]:
    """The files that paths, folders (searched through, for `SUFFIXES`) and glob patterns name, sorted.

    Raises:
        InputError: a pattern names nothing; `setting` is what to name it by.
    """
    found: dict[Path, None] = {}
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        path = Path(pattern).expanduser()
        if path.is_dir():
            files = _in_folder(path, setting)
        elif path.exists():
            files = [path]
        elif has_magic(str(path)):
            files = [Path(name) for name in glob(str(path), recursive=True) if Path(name).is_file()]
            if not files:
                raise InputError(f"{setting} = {pattern!r} matches no file (looked from {Path.cwd()}).")
        else:
            raise InputError(f"{setting} = {pattern!r}: there is no such file (looked from {Path.cwd()}).")
        found |= dict.fromkeys(sorted(files))
    return list(found)


def content_suffix(path: Path) -> str:
    """The suffix of a file's name, before that of a compression."""
    return (path.with_suffix("") if path.suffix in _COMPRESSED else path).suffix.lower()


def hash_files(paths: Sequence[Path]) -> str:
    """A hash of the files' bytes, in their order; names do not count. InputError: one cannot be read."""
    whole = hashlib.blake2b(digest_size=16)
    for path in paths:
        try:
            with open(path, "rb") as file:
                whole.update(hashlib.file_digest(file, hashlib.blake2b).digest())
        except OSError as error:
            raise _unreadable(path, error) from None
    return whole.hexdigest()


def open_content(path: Path) -> io.BufferedReader:
    """A file's bytes, decompressed if they are gzip or zstd: their first bytes decide, not the name.

    Raises:
        InputError: the file cannot be opened; on reading: the compressed bytes are damaged or cut short.
    """
    try:
        raw = path.open("rb")
    except OSError as error:
        raise _unreadable(path, error) from None
    magic = raw.peek(4)
    if magic.startswith(_GZIP_MAGIC):
        chunks = _gzip_chunks(raw, path)
    elif magic.startswith(_ZSTD_MAGIC):
        chunks = _zstd_chunks(raw, path)
    else:
        return raw
    return io.BufferedReader(_Chunks(raw, chunks), 1 << 18)


def _unreadable(path: Path, error: OSError) -> InputError:
    return InputError(f"cannot read {path}: {error.strerror}.")


def _in_folder(folder: Path, setting: str) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    wanted = [path for path in files if content_suffix(path) in SUFFIXES]
    if not wanted:
        kinds = Counter(path.suffix or path.name for path in files)
        holds = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common(5)) or "no file"
        raise InputError(
            f"{setting} = {str(folder)!r} is a folder without {' '.join(SUFFIXES)} files (it holds {holds}): "
            f"name others by a pattern, as in {str(folder / '**' / '*.md')!r}."
        )
    return wanted


class _Chunks(io.RawIOBase):
    """Decompressed chunks as a file to read from."""

    def __init__(self, raw: io.BufferedReader, chunks: Iterator[bytes]):
        self._raw, self._chunks, self._left = raw, chunks, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        while not self._left:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._left = chunk
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


def _gzip_chunks(raw: io.BufferedReader, path: Path) -> Iterator[bytes]:
    try:
        with gzip.GzipFile(fileobj=raw) as file:
            while chunk := file.read(1 << 18):
                yield chunk
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} is gzip, and damaged: {error}.") from None


def _zstd_chunks(raw: io.BufferedReader, path: Path) -> Iterator[bytes]:
    """By hand, because zstandard's own reader takes the end of a file cut short for its end."""
    import zstandard

    frame = None
    try:
        while compressed := raw.read(1 << 18):
            while compressed:
                frame = frame or zstandard.ZstdDecompressor().decompressobj()
                yield frame.decompress(compressed)
                compressed = frame.unused_data if frame.eof else b""
                frame = None if frame.eof else frame
    except zstandard.ZstdError as error:
        raise InputError(f"{path} is zstd, and damaged: {error}.") from None
    if frame is not None:
        raise InputError(f"{path} is zstd, and damaged: it ends inside a frame.")
