"""At which instants a run is struck: drawn so that no part of it is spared."""

import random
import signal

from scripts.faults.process import Event, Fault

SIGNALS = (*(signal.SIGKILL,) * 5, signal.SIGTERM, signal.SIGINT)
# In the middle of a run; besides, it is struck once while it starts and once behind its last update.
MIDDLE = ("update", "update", "save", "save", "evaluation")
# What an event lasts to, where that is not the next one: a save goes on behind the updates after it.
UNTIL = {"start": ("update",), "save": ("save", "exit")}


def draw(chance: random.Random, reference: list[Event], count: int) -> list[Fault]:
    """Some of seven faults, in the order of their steps: each process gets further than the one before.

    Args:
        chance: draws.
        reference: what a run that is left alone does, and when.
        count: how many.
    """
    start, last = reference[0], [event for event in reference if event.name == "update"][-1]
    before = [event for event in reference if event.step < last.step]
    struck = [chance.choice([event for event in before if event.name == name]) for name in MIDDLE]
    struck.sort(key=lambda event: event.seconds)
    struck.insert(chance.randrange(len(struck) + 1), start)
    delays = [chance.uniform(0, _seconds(event, reference, UNTIL.get(event.name))) for event in struck]
    delays.append(chance.uniform(0, _seconds(last, reference, ("exit",))))
    signals = chance.sample(SIGNALS, len(SIGNALS))
    faults = [
        Fault(number, event.name, event.step, delay)
        for number, event, delay in zip(signals, [*struck, last], delays, strict=True)
    ]
    return [faults[index] for index in sorted(chance.sample(range(len(faults)), count))]


def _seconds(event: Event, reference: list[Event], until: tuple[str, ...] | None) -> float:
    """From an event to the next one, or to the next of some names."""
    later = reference[reference.index(event) + 1 :]
    return next(each.seconds for each in later if not until or each.name in until) - event.seconds
