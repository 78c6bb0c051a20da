"""metrics.jsonl: one line of scalars a step, which survives kills and resumes.

A line is {"step", "tokens", "time", tag: value, ...}; time is Unix time in seconds; a value that is not a
number is written NaN, Infinity or -Infinity, which Python's json reads back.
"""

import io
import json
import os
from pathlib import Path
from typing import Any

from seqmodels.errors import InputError


def read(path: Path) -> list[dict[str, Any]]:
    """All whole lines; a last line that a kill cut short is left out. No file: no lines.

    Raises:
        InputError: a whole line is not one of those described above, or the file cannot be read.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None
    *lines, rest = content.split(b"\n")
    found = [_decode(line, f"{path}:{n}") for n, line in enumerate(lines, 1)]
    try:
        return [*found, _decode(rest, str(path))]  # whole but for what was being added to it
    except InputError:
        return found


class MetricsFile:
    """Appends to metrics.jsonl, from `step` on: what an earlier process wrote beyond it is taken back."""

    def __init__(self, path: Path, step: int):
        kept = [line for line in read(path) if line["step"] <= step]
        self._step = kept[-1]["step"] if kept else None  # of the last line
        partial = path.with_name(f".{path.name}.partial")
        partial.write_bytes(b"".join(_encode(line) for line in kept))
        partial.replace(path)
        self._file = open(path, "r+b", buffering=0)  # noqa: SIM115 (closed by close)

    def write(self, step: int, tokens: int, time: float, values: dict[str, float]) -> None:
        """Adds values to the line of `step`, which is the last line or a new one.

        What is added to a line is written behind its brace, and the brace becomes a comma last: a kill in
        between, or a disk that is full, leaves the line as it was.
        """
        end = self._file.seek(0, os.SEEK_END)
        if self._step != step:
            self._put(end, _encode({"step": step, "tokens": tokens, "time": time, **values}))
            self._step = step
        elif values:
            self._put(end - 1, b" " + _encode(values).removeprefix(b"{"))
            self._put(end - 2, b",")

    def sync(self) -> None:
        """Waits until the disk has it all: from here on it outlives the machine too."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Closes the file; every line is already written."""
        self._file.close()

    def _put(self, position: int, content: bytes) -> None:
        self._file.seek(position)
        write_all(self._file, content)


def write_all(file: io.FileIO, content: bytes) -> None:
    """Writes all of it to a file without a buffer; a disk that fills up takes a part before it refuses."""
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]


def _decode(line: bytes, where: str) -> dict[str, Any]:
    """The object that a line begins with."""
    try:
        values, _ = json.JSONDecoder().raw_decode(line.decode())
    except ValueError:
        values = None
    if not isinstance(values, dict) or not {"step", "tokens", "time"} <= values.keys():
        raise InputError(f"{where} is damaged: a line should be an object with step, tokens and time.")
    return values


def _encode(line: dict[str, Any]) -> bytes:
    return json.dumps(line).encode() + b"\n"
