"""Contenders that take turns in one process, and the ratios between them.

Timings of one machine drift by factors within the hour, so only contenders of the same rounds are compared,
by their medians, and ratios under 1.25 are called unresolved.
"""

import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

UNRESOLVED = 1.25


@dataclass(frozen=True)
class Contender:
    """run() returns when the work is done; memory: bytes of temporaries, where known."""

    name: str
    run: Callable[[], object]
    memory: int | None = None


@dataclass(frozen=True)
class Target:
    """`better` is to need at most 1 / factor of the time (or memory) of the best of `others`.

    factor None: the ratio is printed and nothing is asked of it.
    """

    better: str
    others: tuple[str, ...]
    factor: float | None
    quantity: str = "time"


@dataclass(frozen=True)
class Comparison:
    """One table: contenders on the same work, and what is asked of them."""

    title: str
    contenders: tuple[Contender, ...]
    targets: tuple[Target, ...]


def machine() -> str:
    """One line on where the figures come from."""
    import jax

    device = jax.devices()[0]
    return (
        f"{device.platform} ({device.device_kind}), {os.cpu_count()} cores, jax {jax.__version__}, "
        f"Python {platform.python_version()}"
    )


def seconds(contenders, rounds: int) -> dict[str, float]:
    """Median seconds of each contender over rounds in which all take a turn; a first round is not counted."""
    times = {contender.name: [] for contender in contenders}
    for number in range(rounds + 1):
        for contender in contenders:
            begin = time.perf_counter()
            contender.run()
            if number:
                times[contender.name].append(time.perf_counter() - begin)
    return {name: statistics.median(measured) for name, measured in times.items()}


def report(comparison: Comparison, rounds: int) -> tuple[list[str], list[bool]]:
    """The lines of one table, and for each of its targets whether it is reached."""
    amounts = {
        "time": seconds(comparison.contenders, rounds),
        "memory": {contender.name: contender.memory for contender in comparison.contenders},
    }
    lines, verdicts = [f"{comparison.title} (median of {rounds})"], []
    width = max(len(contender.name) for contender in comparison.contenders)
    for contender in comparison.contenders:
        figures = [_written("time", amounts["time"][contender.name])]
        if contender.memory is not None:
            figures.append(_written("memory", contender.memory))
        lines.append(f"  {contender.name:<{width}}" + "".join(f"{figure:>12}" for figure in figures))
    for target in comparison.targets:
        line, verdict = _judged(target, amounts[target.quantity])
        lines.append(f"  {line}")
        verdicts += [] if verdict is None else [verdict]
    return lines, verdicts


def _written(quantity, amount):
    return f"{amount * 1e3:.1f} ms" if quantity == "time" else f"{amount / 1e6:.1f} MB"


def _judged(target, amounts):
    other = min(target.others, key=amounts.get)
    ratio = amounts[other] / max(amounts[target.better], 1e-12)
    line = (
        f"{target.quantity}: {target.better} {_written(target.quantity, amounts[target.better])} against "
        f"{other} {_written(target.quantity, amounts[other])}: {ratio:.2f} times less"
    )
    if target.factor is None:
        unresolved = 1 / UNRESOLVED < ratio < UNRESOLVED
        return line + (" (unresolved)" if unresolved else ""), None
    verdict = ratio >= target.factor
    return f"{line}, target {target.factor:g}: {'reached' if verdict else 'MISSED'}", verdict
