"""The sweep that a compared run is a member of: its grid, and each config's figure along it."""

import contextlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from seqmodels.errors import InputError
from seqmodels.evaluation.learning_rates import CRITERIA, RateCurve, curve
from seqmodels.training.run_directory import RunDirectory

FILE = "sweep.json"


class Membership(NamedTuple):
    """What a sweep says of a member.

    folder: of the sweep. config: the label of the member's config. rates, seeds: that the config is trained
    at, done or not. curve: over those that are done; None before the first is.
    """

    folder: Path
    config: str
    rates: tuple[float, ...]
    seeds: tuple[int, ...]
    curve: RateCurve | None

    def best(self, learning_rate: float) -> bool:
        """Whether that is the rate that the grid would choose."""
        return self.curve is not None and self.curve.best.learning_rate == learning_rate


def chosen(path: Path) -> list[Path]:
    """The runs that a path stands for: itself, or of a sweep's folder each config's member at its best rate.

    Of the seeds at that rate the first that has not failed is taken, not the best. Raises InputError for a
    damaged sweep, or one without a member that is done.
    """
    file = path / FILE
    if not os.path.isfile(file):
        return [path]
    with _damage(file):
        known = json.loads(file.read_text(encoding="utf-8"))
        found = []
        for label in known["configs"]:
            drawn = _curve(known, label)
            if drawn is not None:
                fitting = {
                    each["seed"]: name
                    for name, each in _members(known, label).items()
                    if each["learning_rate"] == drawn.best.learning_rate and each.get("values")
                }
                found += [path / fitting[min(fitting)]] if fitting else []
    if not found:
        raise InputError(f"{path} is a sweep of which no member is done.")
    return found


def membership(run: RunDirectory) -> Membership | None:
    """The sweep whose folder holds the run; None where none does. Raises InputError for a damaged file."""
    file = run.path.parent / FILE
    if not file.is_file():
        return None
    with _damage(file):
        known = json.loads(file.read_text(encoding="utf-8"))
        if run.name not in known["members"]:
            return None
        label = known["members"][run.name]["config"]
        own = _members(known, label).values()
        return Membership(
            folder=file.parent,
            config=label,
            rates=tuple(sorted({each["learning_rate"] for each in own})),
            seeds=tuple(sorted({each["seed"] for each in own})),
            curve=_curve(known, label),
        )


def curves(memberships: Iterable[Membership | None]) -> list[RateCurve]:
    """Each config's curve once, those of one criterion: that of the first; with its folder where two sweeps
    have configs of one name.
    """
    found = {
        (each.folder, each.config): each.curve for each in memberships if each is not None and each.curve
    }
    first = next(iter(found.values()), None)
    kept = {key: drawn for key, drawn in found.items() if drawn.criterion == first.criterion}
    names = [config for _, config in kept]
    return [
        drawn._replace(label=config if names.count(config) == 1 else f"{folder.name}/{config}")
        for (folder, config), drawn in kept.items()
    ]


def _members(known: dict[str, Any], label: str) -> dict[str, dict[str, Any]]:
    """Those of a config, by name."""
    return {name: each for name, each in known["members"].items() if each["config"] == label}


def _curve(known: dict[str, Any], label: str) -> RateCurve | None:
    """Of a config's members that are done."""
    criterion = next(each for each in CRITERIA.values() if each.tag == known["criterion"]["tag"])
    values = [
        (each["learning_rate"], each["values"].get(criterion.tag))
        for each in _members(known, label).values()
        if "values" in each
    ]
    return curve(label, criterion, values, known["configs"][label]["chance"]) if values else None


@contextlib.contextmanager
def _damage(file: Path) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError, StopIteration):
        raise InputError(f"{file} is damaged; the sweep's own command writes it again.") from None
