"""A sweep from its command line to its tables."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seqmodels import config
from seqmodels.errors import InputError
from seqmodels.evaluation.learning_rates import CRITERIA, Criterion
from seqmodels.sweep import pool, results
from seqmodels.sweep.grid import Member, Recipe, recipe
from seqmodels.sweep.outcome import Outcome
from seqmodels.sweep.progress import SweepProgress
from seqmodels.sweep.results import Entry
from seqmodels.training.hardware import cores
from seqmodels.training.lock import Lock
from seqmodels.training.settings import configured


def sweep(
    files: dict[str, str],
    folder: Path,
    flags: Sequence[str],
    *,
    learning_rates: Sequence[float] | None,
    seeds: Sequence[int] | None,
    workers: int | None,
    vectorize: bool,
) -> None:
    """Trains what is not trained yet of configs x learning rates x seeds, and writes and prints the tables.

    Args:
        files: config files by label.
        folder: of the sweep.
        flags: "NAME = VALUE" each, on top of every config.
        learning_rates, seeds: of the grid; None: each config's own.
        workers: processes; None: one a core, or one where all members of a config are one program.
        vectorize: train the members of a config as one program, as is done on accelerators in any case.

    Raises:
        InputError: what is asked for cannot be trained, or not in this folder.
        CheckpointWriteError: the disk does not take what a member leaves.
    """
    recipes = [recipe(label, file, flags, learning_rates, seeds) for label, file in files.items()]
    results.check_folder(folder, recipes)
    with Lock(folder):
        entries, criterion = _entries(recipes)
        ended = results.outcomes(folder, recipes)
        results.check_data(folder, entries, ended)
        results.write_summary(folder, entries, ended, criterion)
        left = [(each, [member for member in each.members if member not in ended]) for each in recipes]
        try:
            if any(members for _, members in left):
                _train(folder, entries, left, ended, criterion, asked=workers, vectorize=vectorize)
        finally:
            results.write_summary(folder, entries, ended, criterion)
            shown = results.write_tables(folder, entries, ended, criterion)
        print("", *shown, "", sep="\n")
        print(f"written: {folder / 'sweep.md'}, sweep.json, sweep.png; a run directory a member beside them")


def _train(
    folder: Path,
    entries: Sequence[Entry],
    left: Sequence[tuple[Recipe, Sequence[Member]]],
    ended: dict[Member, Outcome],
    criterion: Criterion,
    *,
    asked: int | None,
    vectorize: bool,
) -> None:
    """Trains the members that are left, and adds what became of each to `ended`."""
    platform = "cpu" if vectorize else pool.platform()
    if platform != "cpu" and asked not in (None, 1):
        raise InputError(f"--workers {asked}: a {platform} device serves one process; leave the option out.")
    together = vectorize or platform != "cpu"
    count = sum(len(members) for _, members in left)
    workers = min(asked or (1 if together else len(cores())), count)
    done = f"{len(ended)} of {len(ended) + count} members are done; " if ended else ""
    how = "the members of a config as one program" if together else "one after the other"
    processes = f"in {workers} processes" if workers > 1 else "in one process"
    print(f"{done}training {count} members of {len(left)} configs, {how}, {processes} ...", flush=True)
    steps = {entry.recipe.label: entry.steps for entry in entries}
    updates = {member: steps[member.config] for _, members in left for member in members}
    with SweepProgress(updates, len(ended), criterion.tag, criterion.name) as progress:

        def note(member: Member, outcome: Outcome) -> None:
            ended[member] = outcome
            progress.ended(member, outcome)

        pool.train(
            pool.Deck(left, together=together),
            folder,
            workers=workers,
            pinned=not together,
            together=together,
            at=progress.at,
            ended=note,
        )


def _entries(recipes: Sequence[Recipe]) -> tuple[list[Entry], Criterion]:
    """The configs, with their data made ready for all workers, and what their members are compared by."""
    entries, kinds = [], {}
    for each in recipes:
        config.load([each.file], each.flags)
        settings = configured()
        settings.plan()  # refuses what cannot be, also where a member makes no use of it
        data = settings.data
        if kinds and data.kind not in kinds:
            first, label = next(iter(kinds.items()))
            raise InputError(
                f"{label} trains on {first} data and {each.label} on {data.kind} data: there is no figure to "
                "compare them by; sweep them apart."
            )
        kinds.setdefault(data.kind, each.label)
        data.prepare(say=print)
        entries.append(Entry(each, settings.steps, data.fingerprint, _chance(data)))
    return entries, CRITERIA[next(iter(kinds))]


def _chance(data: Any) -> float | None:
    """The recall area of guessing any value."""
    task = data.tasks[0] if data.kind == "mixture" else data
    return None if task.kind == "text" else 1 / len(task.value_ids)
