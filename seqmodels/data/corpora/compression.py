"""The bytes of a file, whatever they are compressed with, some at a time."""

import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path

from seqmodels.data.corpora.local_files import COMPRESSED, unreadable
from seqmodels.errors import InputError

_GZIP_MAGIC, _ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"  # behind one of 0x50 to 0x5f, as parallel compressors begin
_CHUNK_BYTES = 1 << 18
_ZSTD_BYTES = 1 << 10  # of a file that may hold 30,000 times as much


def open_content(path: Path) -> io.BufferedReader:
    """A file's bytes, decompressed if they are gzip or zstd: their first bytes decide.

    Raises:
        InputError: the file cannot be opened, or has a compressed file's name alone; on reading: the
            compressed bytes are damaged or cut short.
    """
    try:
        raw = path.open("rb")
    except OSError as error:
        raise unreadable(path, error) from None
    try:
        magic = raw.peek(4)[:4]
        if magic.startswith(_GZIP_MAGIC):
            return io.BufferedReader(_Chunks(raw, _gzip_chunks(raw, path)), _CHUNK_BYTES)
        if magic == _ZSTD_MAGIC or (magic[1:] == _ZSTD_SKIPPABLE and magic[0] >> 4 == 5):
            return io.BufferedReader(_Chunks(raw, _zstd_chunks(raw, path)), _CHUNK_BYTES)
        if path.suffix.lower() in COMPRESSED:
            raise InputError(
                f"{path} is named {path.suffix}, and begins like neither gzip nor zstd "
                f"({magic.hex(' ') or 'it is empty'}): it is damaged, or has the wrong name."
            )
        return raw
    except OSError as error:
        raw.close()
        raise unreadable(path, error) from None
    except InputError:
        raw.close()
        raise


class _Chunks(io.RawIOBase):
    """Decompressed chunks as a file to read from."""

    def __init__(self, raw: io.BufferedReader, chunks: Iterator[bytes]):
        self._raw, self._chunks, self._left = raw, chunks, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        """Fills the buffer unless the chunks end: a few first bytes alone would hide what a file is."""
        done = 0
        while done < len(buffer):
            if not self._left:
                chunk = next(self._chunks, None)
                if chunk is None:
                    break
                self._left = memoryview(chunk)
            count = min(len(buffer) - done, len(self._left))
            buffer[done : done + count] = self._left[:count]
            self._left = self._left[count:]
            done += count
        return done

    def close(self) -> None:
        self._raw.close()
        super().close()


def _gzip_chunks(raw: io.BufferedReader, path: Path) -> Iterator[bytes]:
    try:
        with gzip.GzipFile(fileobj=raw) as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} is gzip, and damaged: {error}.") from None


def _zstd_chunks(raw: io.BufferedReader, path: Path) -> Iterator[bytes]:
    """By hand, because zstandard's own reader takes the end of a file cut short for its end."""
    import zstandard

    frame = None
    try:
        while compressed := raw.read(_ZSTD_BYTES):
            while compressed:
                frame = frame or zstandard.ZstdDecompressor().decompressobj()
                yield frame.decompress(compressed)
                compressed = frame.unused_data if frame.eof else b""
                frame = None if frame.eof else frame
    except (OSError, zstandard.ZstdError) as error:
        if "requires too much memory" in str(error):
            raise InputError(
                f"{path} is zstd with a window above 128 MiB, the most that is read: compress it again "
                "without --long, or with --long=27 at the most."
            ) from None
        raise InputError(f"{path} is zstd, and damaged: {error}.") from None
    if frame is not None:
        raise InputError(f"{path} is zstd, and damaged: it ends inside a frame.")
