"""A run directory: what was asked, what was used, what came out.

config.gin  operative.gin  run.json     what was asked, what was used, versions, device, data
metrics.jsonl  events.out.tfevents.*    the same scalars, each step once, across resumes
tokenizer/                              where it was learned or read from a file
checkpoints/STEP/                       parameters, optimizer state, position in the data
eval/STEP/                              what eval.py wrote
"""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from seqmodels.errors import InputError
from seqmodels.training import lock, metrics_file


class RunDirectory:
    """The directory of an existing run, to read from or to go on in.

    Raises:
        InputError: there is no run at this path, or it is not UTF-8.
    """

    def __init__(self, path: str | os.PathLike):
        check_name(path)
        self.path = Path(path).absolute()
        if not os.path.isdir(self.path):
            raise InputError(f"there is no run directory {path}.")
        if not os.path.isfile(self.config_file):
            raise InputError(f"{path} is no run directory: it has no config.gin.")

    @property
    def name(self) -> str:
        """The name of the run, as TensorBoard shows it."""
        return self.path.name

    @property
    def config_file(self) -> Path:
        """The full config, which loads again as it is."""
        return self.path / "config.gin"

    @property
    def config_text(self) -> str:
        """The text of config.gin."""
        return self.config_file.read_text(encoding="utf-8")

    @property
    def checkpoints(self) -> Path:
        """Where the checkpoints lie, one folder a step."""
        return self.path / "checkpoints"

    @property
    def tokenizer(self) -> Path:
        """The folder of the tokenizer, where it is more than its settings."""
        return self.path / "tokenizer"

    @property
    def metrics_file(self) -> Path:
        """The scalars, a line a step."""
        return self.path / "metrics.jsonl"

    def evaluation(self, step: int) -> Path:
        """Where an evaluation of the checkpoint at `step` goes."""
        return self.path / "eval" / str(step)

    def metrics(self) -> list[dict[str, Any]]:
        """The lines of metrics.jsonl: {"step", "tokens", "time", tag: value, ...}."""
        return metrics_file.read(self.metrics_file)

    def metrics_at(self, step: int) -> dict[str, Any]:
        """The line of one step; empty where it has none."""
        return next((line for line in self.metrics() if line["step"] == step), {})

    def information(self) -> dict[str, Any]:
        """What run.json says; at least "data" and "vocab_size"."""
        file = self.path / "run.json"
        try:
            known = json.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(f"{file} cannot be read: {error.strerror}.") from None
        except ValueError as error:
            raise InputError(f"{file} is damaged: {error}.") from None
        if not isinstance(known, dict) or not {"data", "vocab_size"} <= known.keys():
            raise InputError(f"{file} is damaged: it does not say what data the run was begun with.")
        return known

    def write(self, name: str, text: str) -> None:
        """Writes a file of the run so that a reader, or a crash, sees the old one or the new one whole."""
        write_whole(self.path / name, text)


def is_run(path: Path) -> bool:
    """Whether a run was started at this path: a config.gin alone may be a user's own file."""
    return os.path.isfile(path / "config.gin") and any(
        (path / name).is_file() for name in (lock.FILE, "run.json")
    )


def check_free(path: Path) -> None:
    """Raises InputError unless a new run can start at `path`: it may hold nothing that is not ours."""
    check_name(path)
    if os.path.exists(path) and not os.path.isdir(path):
        raise InputError(f"--run-dir {path} is a file; name a directory that is new, empty or a run's own.")
    if os.path.isdir(path) and not is_run(path):
        others = sorted(entry.name for entry in path.iterdir() if not entry.name.startswith("."))
        if others:
            shown = ", ".join(others[:3]) + (", ..." if others[3:] else "")
            raise InputError(
                f"--run-dir {path} holds other files ({shown}) and no "
                "run; name a directory that is new, empty or a run's own."
            )


def check_name(path: str | os.PathLike) -> None:
    """Raises InputError where the path of a run is not UTF-8: what writes its checkpoints takes no other."""
    try:
        os.path.abspath(path).encode()
    except UnicodeEncodeError:
        raise InputError(f"{path}: the path of a run directory should be UTF-8 text; name another.") from None


def write_whole(path: Path, content: str | bytes) -> None:
    """Writes a file, text as UTF-8, through a hidden partial one, so that it is never seen half written.

    Raises InputError where it cannot be written: the disk is full, or the directory read-only.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        with open(partial, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink()
        raise InputError(f"{path} cannot be written: {error.strerror}.") from None
