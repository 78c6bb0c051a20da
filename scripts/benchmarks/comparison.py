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
    """run() returns when the work is done; memory: bytes of temporaries, where known.

    work: how much one run gets done, and of what: (4096, "tokens").
    """

    name: str
    run: Callable[[], object]
    memory: int | None = None
    work: tuple[float, str] | None = None


@dataclass(frozen=True)
class Target:
    """`better` is to need at most 1 / factor of the time (or memory) of the best of `others`.

    quantity: "time", "memory", or "rate", of which `better` is to have at least factor times as much. factor
    None: the ratio is printed and nothing is asked of it.
    """

    better: str
    others: tuple[str, ...]
    factor: float | None
    quantity: str = "time"


@dataclass(frozen=True)
class Limit:
    """`name` is to need at most so many seconds, whatever the machine."""

    name: str
    seconds: float


@dataclass(frozen=True)
class Comparison:
    """One table: contenders that take turns, and what is asked of them.

    rounds: where it is given, as many and none to warm up: for minutes of processes that start from nothing.
    """

    title: str
    contenders: tuple[Contender, ...]
    targets: tuple[Target, ...] = ()
    limits: tuple[Limit, ...] = ()
    rounds: int | None = None


def machine() -> str:
    """One line on where the figures come from."""
    import jax

    device = jax.devices()[0]
    return (
        f"{device.platform} ({device.device_kind}), {os.cpu_count()} cores, jax {jax.__version__}, "
        f"Python {platform.python_version()}"
    )


def seconds(contenders, rounds: int, *, uncounted: int = 1) -> dict[str, float]:
    """Median seconds of each contender over rounds in which all take a turn; the first is not counted."""
    times = {contender.name: [] for contender in contenders}
    for number in range(rounds + uncounted):
        for contender in contenders:
            begin = time.perf_counter()
            contender.run()
            if number >= uncounted:
                times[contender.name].append(time.perf_counter() - begin)
    return {name: statistics.median(measured) for name, measured in times.items()}


def report(comparison: Comparison, rounds: int) -> tuple[list[str], list[bool]]:
    """The lines of one table, and for each of its targets whether it is reached."""
    contenders = comparison.contenders
    rounds, uncounted = (rounds, 1) if comparison.rounds is None else (comparison.rounds, 0)
    times = seconds(contenders, rounds, uncounted=uncounted)
    rates = {each.name: each.work[0] / times[each.name] for each in contenders if each.work is not None}
    amounts = {"time": times, "memory": {each.name: each.memory for each in contenders}, "rate": rates}
    units = {each.name: each.work[1] for each in contenders if each.work is not None}
    lines, verdicts = [f"{comparison.title} (median of {rounds})"], []
    width = max(len(contender.name) for contender in contenders)
    for contender in contenders:
        figures = [_written("time", times[contender.name])]
        if contender.memory is not None:
            figures.append(_written("memory", contender.memory))
        if contender.work is not None:
            figures.append(_written("rate", rates[contender.name]) + f" {units[contender.name]}/s")
        lines.append(f"  {contender.name:<{width}}" + "".join(f"  {figure:>12}" for figure in figures))
    judged = [_judged(target, amounts[target.quantity]) for target in comparison.targets]
    judged += [_limited(limit, times[limit.name]) for limit in comparison.limits]
    for line, verdict in judged:
        lines.append(f"  {line}")
        verdicts += [] if verdict is None else [verdict]
    return lines, verdicts


def _written(quantity, amount):
    if quantity == "rate":
        return f"{amount:,.1f}" if amount < 1000 else f"{amount:,.0f}"
    return f"{amount * 1e3:.1f} ms" if quantity == "time" else f"{amount / 1e6:.1f} MB"


def _judged(target, amounts):
    more = target.quantity == "rate"
    other = (max if more else min)(target.others, key=amounts.get)
    larger, smaller = (target.better, other) if more else (other, target.better)
    ratio = amounts[larger] / max(amounts[smaller], 1e-12)
    line = (
        f"{target.quantity}: {target.better} {_written(target.quantity, amounts[target.better])} against "
        f"{other} {_written(target.quantity, amounts[other])}: {ratio:.2f} times {'it' if more else 'less'}"
    )
    if target.factor is None:
        unresolved = 1 / UNRESOLVED < ratio < UNRESOLVED
        return line + (" (unresolved)" if unresolved else ""), None
    return _verdict(line, f"{target.factor:g}", ratio >= target.factor)


def _limited(limit, amount):
    line = f"time: {limit.name} {_written('time', amount)}"
    return _verdict(line, f"at most {_written('time', limit.seconds)}", amount <= limit.seconds)


def _verdict(line, target, reached):
    return f"{line}, target {target}: {'reached' if reached else 'MISSED'}", reached
