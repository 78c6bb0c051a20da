"""What became of a member: kept in its run directory, by which a sweep knows what it need not train again."""

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

from seqmodels.config import Config
from seqmodels.errors import InputError
from seqmodels.training.run_directory import RunDirectory, is_run, write_whole

FILE = "outcome.json"


class Outcome(NamedTuple):
    """failed: why there is no result; None where there is one. values: those of the evaluation after the last
    update, by tag. steps: updates made. seconds: that it took, without compiling.
    """

    failed: str | None
    values: dict[str, float]
    steps: int
    seconds: float


def read(path: Path) -> Outcome | None:
    """What became of the member in a run directory; None while that is open.

    Raises InputError where the file is damaged.
    """
    file = path / FILE
    if not file.is_file():
        return None
    try:
        return Outcome(**json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, TypeError):
        raise InputError(f"{file} is damaged; without {path} the member is trained again.") from None


def write(run: RunDirectory, outcome: Outcome) -> None:
    """Ends a member: from here on it is not trained again."""
    run.write(FILE, json.dumps(outcome._asdict(), indent=1))


def begin(path: Path, loaded: Config) -> RunDirectory:
    """A new run directory, in place of what an interrupted member left there.

    Raises InputError where something else is in its place.
    """
    if path.exists():
        if not is_run(path) and (not path.is_dir() or any(_visible(path))):
            raise InputError(f"{path} is in the place of a member's run directory; move it away.")
        shutil.rmtree(path)
    path.mkdir(parents=True)
    write_whole(path / "config.gin", loaded.text)
    return RunDirectory(path)


def _visible(path: Path) -> list[Any]:
    return [
        entry for entry in path.iterdir() if not entry.name.startswith(".") and entry.name != "config.gin"
    ]
