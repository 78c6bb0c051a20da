"""metrics.jsonl: one line of scalars a step, which survives kills and resumes.

A line is {"step", "tokens", "time", tag: value, ...}; time is Unix time in seconds; a value that is not a
number is written NaN, Infinity or -Infinity, which Python's json reads back.
"""

import json
import os
from pathlib import Path
from typing import Any

from seqmodels.errors import InputError


def read(path: Path) -> list[dict[str, Any]]:
    """All whole lines; a last line that a kill cut short is left out. No file: no lines.

    Raises:
        InputError: a whole line is not one of those described above.
    """
    if not path.exists():
        return []
    return [_decode(line, f"{path}:{n}") for n, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1)]


class MetricsFile:
    """Appends to metrics.jsonl, from `step` on: what an earlier process wrote beyond it is taken back."""

    def __init__(self, path: Path, step: int):
        kept = [line for line in read(path) if line["step"] <= step]
        self._last: dict[str, Any] = kept[-1] if kept else {}
        body = b"".join(_encode(line) for line in kept)
        self._start = len(body) - (len(_encode(self._last)) if kept else 0)  # where the last line starts
        partial = path.with_name(f".{path.name}.partial")
        partial.write_bytes(body)
        partial.replace(path)
        self._file = open(path, "r+b", buffering=0)  # noqa: SIM115 (closed by close)
        self._file.seek(0, os.SEEK_END)

    def write(self, step: int, tokens: int, time: float, values: dict[str, float]) -> None:
        """Adds values to the line of `step`, which is the last line or a new one."""
        line = {"step": step, "tokens": tokens, "time": time, **values}
        if self._last.get("step") == step:
            line = {**self._last, **values}  # longer than what it overwrites
            self._file.seek(self._start)
        else:
            self._start = self._file.tell()
        self._file.write(_encode(line))
        self._last = line

    def close(self) -> None:
        """Closes the file; every line is already written."""
        self._file.close()


def _decode(line: bytes, where: str) -> dict[str, Any]:
    try:
        values = json.loads(line)
    except ValueError:
        values = None
    if not isinstance(values, dict) or not {"step", "tokens", "time"} <= values.keys():
        raise InputError(f"{where} is damaged: a line should be an object with step, tokens and time.")
    return values


def _encode(line: dict[str, Any]) -> bytes:
    return json.dumps(line).encode() + b"\n"
