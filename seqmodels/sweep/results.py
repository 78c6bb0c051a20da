"""What a sweep leaves: sweep.json, sweep.md and sweep.png beside its members' run directories."""

import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from seqmodels.errors import InputError
from seqmodels.evaluation import plots, plots_sweep
from seqmodels.evaluation.json_numbers import encoded
from seqmodels.evaluation.learning_rates import Criterion, RateCurve, curve
from seqmodels.sweep import outcome, table
from seqmodels.sweep.grid import Member, Recipe
from seqmodels.sweep.outcome import Outcome
from seqmodels.training.run_directory import check_name, write_whole

SWEEP = "sweep.json"


class Entry(NamedTuple):
    """A config of a sweep: its recipe, updates a member makes, the fingerprint of its data, and what guessing
    reaches, where known.
    """

    recipe: Recipe
    steps: int
    data: str
    chance: float | None


def check_folder(folder: Path, recipes: Sequence[Recipe]) -> None:
    """Raises InputError unless a folder is new, empty, or holds a sweep whose members are among these.

    A sweep may grow by rates, seeds and configs; what it has trained must have been trained as asked now.
    """
    check_name(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(
            f"--run-dir {folder} is a file; name a directory that is new, empty or a sweep's own."
        )
    if not folder.is_dir():
        return
    if not (folder / SWEEP).is_file():
        others = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
        if others:
            shown = ", ".join(others[:3]) + (", ..." if others[3:] else "")
            raise InputError(
                f"--run-dir {folder} holds other files ({shown}) and no sweep; name a directory that is new, "
                "empty or a sweep's own."
            )
        return
    configs, trained = _known(folder, "config")
    missing = sorted(trained - {member.name for recipe in recipes for member in recipe.members})
    if missing:
        shown = ", ".join(missing[:2]) + (", ..." if missing[2:] else "")
        raise InputError(
            f"--run-dir {folder} holds another sweep, with members that this one has not ({shown}); name "
            "another directory."
        )
    for recipe in recipes:
        if configs.get(recipe.label, recipe.text) != recipe.text:
            raise InputError(
                f"--run-dir {folder} holds another sweep, in which {recipe.label} had other settings; name "
                "another directory."
            )


def check_data(folder: Path, entries: Sequence[Entry], ended: dict[Member, Outcome]) -> None:
    """Raises InputError where members that are done were trained on other data than a config has now."""
    if not ended:
        return
    fingerprints, _ = _known(folder, "data")
    for entry in entries:
        begun = fingerprints.get(entry.recipe.label, entry.data)
        if begun != entry.data and any(member in ended for member in entry.recipe.members):
            raise InputError(
                f"--run-dir {folder} has members of {entry.recipe.label} that were trained on other data: "
                f"their fingerprint was {begun} and is now {entry.data}; restore the data, or name another "
                "directory."
            )


def outcomes(folder: Path, recipes: Sequence[Recipe]) -> dict[Member, Outcome]:
    """What became of the members that are done."""
    read = {member: outcome.read(folder / member.name) for recipe in recipes for member in recipe.members}
    return {member: ended for member, ended in read.items() if ended is not None}


def curves(entries: Sequence[Entry], ended: dict[Member, Outcome], criterion: Criterion) -> list[RateCurve]:
    """A curve a config, of the members that are done; configs without one are left out."""
    drawn = []
    for entry in entries:
        own = [(member, ended[member]) for member in entry.recipe.members if member in ended]
        values = [(member.learning_rate, each.values.get(criterion.tag)) for member, each in own]
        if values:
            drawn.append(curve(entry.recipe.label, criterion, values, entry.chance))
    return drawn


def write_summary(
    folder: Path, entries: Sequence[Entry], ended: dict[Member, Outcome], criterion: Criterion
) -> None:
    """Writes sweep.json as far as the sweep is: what it is, by which it is known again, and its results."""
    drawn = curves(entries, ended, criterion)
    write_whole(folder / SWEEP, json.dumps(_summary(entries, ended, drawn, criterion), indent=1))


def write_tables(
    folder: Path, entries: Sequence[Entry], ended: dict[Member, Outcome], criterion: Criterion
) -> list[str]:
    """Writes sweep.md and sweep.png, and returns the lines that say the same on a terminal."""
    drawn = curves(entries, ended, criterion)
    if not drawn:
        return []
    title = _title(entries, ended, criterion)
    picture = plots.png(plots_sweep.learning_rates(drawn, textwrap.fill(title, 72)))
    write_whole(folder / "sweep.png", picture)
    tables, remarks = (table.rates(drawn), table.choices(drawn)), table.remarks(drawn)
    failures = [f"{member.name}: {each.failed}" for member, each in ended.items() if each.failed]
    text = [f"# {title}", ""]
    for rows in reversed(tables):
        text += [*table.as_markdown(rows), ""]
    text += ["![Against the learning rate](sweep.png)", "", *(f"- {line}" for line in remarks)]
    text += [f"- failed: {line}" for line in failures]
    write_whole(folder / "sweep.md", "\n".join([*text, ""]))
    shown = [title, ""]
    for rows in tables:
        shown += [*table.as_text(rows), ""]
    return shown + [line for remark in remarks for line in textwrap.wrap(remark, table.WIDTH)]


def _known(folder: Path, fact: str) -> tuple[dict[str, str], set[str]]:
    """What sweep.json says: a fact of each config by its label, and the names of the members."""
    file = folder / SWEEP
    try:
        known = json.loads(file.read_text(encoding="utf-8"))
        return {label: about[fact] for label, about in known["configs"].items()}, set(known["members"])
    except (ValueError, TypeError, KeyError, AttributeError):
        raise InputError(f"{file} is damaged; name another --run-dir.") from None
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}.") from None


def _title(entries: Sequence[Entry], ended: dict[Member, Outcome], criterion: Criterion) -> str:
    members = sum(len(entry.recipe.members) for entry in entries)
    seeds = sorted({member.seed for entry in entries for member in entry.recipe.members})
    steps = sorted({entry.steps for entry in entries})
    so_far = "" if len(ended) == members else f"; {len(ended)} of {members} members so far"
    named = "seeds" if len(seeds) > 1 else "seed"
    return (
        f"{criterion.name} on validation rows after {' or '.join(f'{count:,}' for count in steps)} updates, "
        f"{named} {', '.join(map(str, seeds))}{so_far}"
    )


def _summary(
    entries: Sequence[Entry],
    ended: dict[Member, Outcome],
    drawn: Sequence[RateCurve],
    criterion: Criterion,
) -> dict[str, Any]:
    configs = {
        entry.recipe.label: {
            "file": entry.recipe.file,
            "flags": list(entry.recipe.flags),
            "steps": entry.steps,
            "data": entry.data,
            "chance": entry.chance,
            "config": entry.recipe.text,
        }
        for entry in entries
    }
    members = {
        member.name: {**member._asdict(), **(ended[member]._asdict() if member in ended else {"open": True})}
        for entry in entries
        for member in entry.recipe.members
    }
    results = {each.label: _result(each) for each in drawn}
    whole = {"criterion": criterion._asdict(), "configs": configs, "members": members, "results": results}
    return encoded(whole)


def _result(drawn: RateCurve) -> dict[str, Any]:
    return {
        "best_learning_rate": drawn.best.learning_rate,
        "window": {
            **drawn.window._asdict(),
            "factor": drawn.window.factor,
            "octaves": drawn.window.octaves,
        },
        "rates": [
            {
                "learning_rate": rate.learning_rate,
                "median": rate.median,
                "min": min(rate.values),
                "max": max(rate.values),
                "values": list(rate.values),
                "failed": rate.failed,
                "solved": rate.solved,
                "solving": None if rate.solving is None else rate.solving._asdict(),
            }
            for rate in drawn.rates
        ],
    }
