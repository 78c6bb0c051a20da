"""TensorBoard: the event file of a run.

Events are written by the calling thread, each at once: of the library's own writers one has a thread that
dies on a full disk, after which every flush waits for ever, and the other waits for the disk at every flush.
"""

import os
import socket
import struct
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tensorboardX import summary
from tensorboardX.proto import event_pb2, summary_pb2
from tensorboardX.record_writer import masked_crc32c

from seqmodels.training.metrics_file import write_all

BY_TOKENS = ("train/loss", "train/bits_per_byte", "eval/loss", "eval/bits_per_byte", "eval/recall_area")


class EventFile:
    """Writes one event file into the run directory, going on after `step`.

    TensorBoard drops what earlier files of the run hold beyond `step`. The curves against tokens, whose x is
    no step, are dropped with it as a whole and written again from `lines`. So are those of `step` itself
    where `lines` know no evaluation of it: one that a killed process left here alone will be made again.

    Args:
        directory: the run directory.
        step: the step that the run goes on from, 0 for a new run.
        lines: of metrics.jsonl, up to `step`.
    """

    def __init__(self, directory: Path, step: int, lines: Iterable[dict[str, Any]]):
        # The reader takes files by name: each has a later second than all before it, also where two starts
        # fall into one second or the clock was set back.
        names = (file.name.split(".")[3] for file in directory.glob("events.out.tfevents.*"))
        newest = max((int(second) for second in names if second.isdecimal()), default=0)
        name = f"events.out.tfevents.{max(int(time.time()), newest + 1):010}.{socket.gethostname()}"
        self._file = open(directory / name, "xb", buffering=0)  # noqa: SIM115 (closed by close)
        self._write(time.time(), file_version="brain.Event:2")
        start = event_pb2.SessionLog(status=event_pb2.SessionLog.SessionStatus.Value("START"))
        lines = list(lines)
        last = lines[-1] if lines and lines[-1]["step"] == step else {}
        evaluated = any(tag.startswith("eval/") for tag in last)
        self._write(time.time(), step=step + 1 if evaluated else step, session_log=start)
        for line in lines:
            self._by_tokens(line["tokens"], line["time"], line)
        if last and not evaluated:
            values = {tag: value for tag, value in last.items() if tag not in ("step", "tokens", "time")}
            self._summary(_scalars(values), step, last["time"])

    def scalars(self, step: int, tokens: int, seconds: float, values: dict[str, float]) -> None:
        """Adds scalars at a step, and the headline ones at the tokens seen."""
        self._summary(_scalars(values), step, seconds)
        self._by_tokens(tokens, seconds, values)

    def text(self, tag: str, text: str, step: int) -> None:
        """Adds a text, shown as it is."""
        indented = "".join(f"    {line}\n" for line in text.split("\n"))
        self._summary(summary.text(tag, indented), step)

    def layout(self, groups: dict[str, dict[str, tuple[str, ...]]]) -> None:
        """Adds charts of several curves: regular expressions of tags, by title, by group."""
        charts = {
            group: {title: ["Multiline", list(tags)] for title, tags in titles.items()}
            for group, titles in groups.items()
        }
        self._summary(summary.custom_scalars(charts), 0)

    def hyperparameters(self, settings: dict[str, Any], metrics: Iterable[str]) -> None:
        """Adds the run to TensorBoard's table of runs, which shows the last value of `metrics`."""
        plain = {
            name: value if isinstance(value, (bool, int, float, str)) else str(value)
            for name, value in settings.items()
        }
        for part in summary.hparams(plain, dict.fromkeys(metrics, 0.0)):
            self._summary(part, 0)

    def sync(self) -> None:
        """Waits until the disk has it all: from here on it outlives the machine too."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Closes the file; every event is already written."""
        self._file.close()

    def _by_tokens(self, tokens: int, seconds: float, values: dict[str, Any]) -> None:
        curves = {f"by_tokens/{tag}": values[tag] for tag in BY_TOKENS if tag in values}
        if curves:
            self._summary(_scalars(curves), tokens, seconds)

    def _summary(self, content: Any, step: int, seconds: float | None = None) -> None:
        self._write(seconds or time.time(), step=step, summary=content)

    def _write(self, seconds: float, **content: Any) -> None:
        event = event_pb2.Event(wall_time=seconds, **content).SerializeToString()
        length = struct.pack("<Q", len(event))
        checksums = (struct.pack("<I", masked_crc32c(part)) for part in (length, event))
        write_all(self._file, b"".join((length, next(checksums), event, next(checksums))))


def _scalars(values: dict[str, float]) -> summary_pb2.Summary:
    """All in one event: each has a checksum, computed in Python."""
    return summary_pb2.Summary(
        value=[summary_pb2.Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
    )
