"""The sweep that a compared run is a member of: its grid, and each config's figure along it."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

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


def membership(run: RunDirectory) -> Membership | None:
    """The sweep whose folder holds the run; None where none does. Raises InputError for a damaged file."""
    file = run.path.parent / FILE
    if not file.is_file():
        return None
    try:
        known = json.loads(file.read_text(encoding="utf-8"))
        member = known["members"].get(run.name)
        if member is None:
            return None
        label = member["config"]
        own = [each for each in known["members"].values() if each["config"] == label]
        criterion = next(each for each in CRITERIA.values() if each.tag == known["criterion"]["tag"])
        values = [
            (each["learning_rate"], each["values"].get(criterion.tag)) for each in own if "values" in each
        ]
        chance = known["configs"][label]["chance"]
        return Membership(
            folder=file.parent,
            config=label,
            rates=tuple(sorted({each["learning_rate"] for each in own})),
            seeds=tuple(sorted({each["seed"] for each in own})),
            curve=curve(label, criterion, values, chance) if values else None,
        )
    except (ValueError, TypeError, KeyError, AttributeError, StopIteration):
        raise InputError(f"{file} is damaged; the sweep's own command writes it again.") from None


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
