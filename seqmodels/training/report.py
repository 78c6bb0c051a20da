"""What a run prints before its first step: what it will train, on what, and what that takes."""

import datetime
from collections.abc import Callable, Iterable
from typing import Any

import jax

Rows = list[tuple[str, str]]


def show(rows: Iterable[tuple[str, str]], say: Callable[[str], None]) -> None:
    """Prints names and values in two aligned columns."""
    rows = list(rows)
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        say(f"  {name:<{width}}  {value}")


def of_parameters(parts: dict[str, int]) -> str:
    """The number of parameters, in all and by part of the model."""
    total = sum(parts.values())
    return f"{total:,} ({', '.join(f'{part} {count:,}' for part, count in parts.items() if count)})"


def of_memory(compiled: jax.stages.Compiled) -> str:
    """What the compiled step takes on each device."""
    memory = compiled.memory_analysis()
    if memory is None:
        return "not known on this platform"
    fresh = memory.output_size_in_bytes - memory.alias_size_in_bytes
    return (
        f"arguments {as_bytes(memory.argument_size_in_bytes)} (donated "
        f"{as_bytes(memory.alias_size_in_bytes)}), temporaries {as_bytes(memory.temp_size_in_bytes)}, "
        f"output {as_bytes(fresh)}"
    )


def of_decay(decays: Any, params: Any) -> Rows:
    """Which parameters take weight decay, with the layers of equal form in one row."""
    groups: dict[tuple[str, str], list[tuple[int, ...]]] = {}
    flags = jax.tree.leaves(decays)
    for (path, leaf), decayed in zip(jax.tree.leaves_with_path(params), flags, strict=True):
        name = ".".join("*" if isinstance(key.key, int) else str(key.key) for key in path)
        groups.setdefault(("decayed" if decayed else "not decayed", name), []).append(tuple(leaf.shape))
    return [(kind, f"{name}  {_shapes(shapes)}") for (kind, name), shapes in sorted(groups.items())]


def as_bytes(count: float) -> str:
    """A number of bytes in a unit that suits it."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} GiB"


def as_time(seconds: float) -> str:
    """A time span, to the second."""
    return str(datetime.timedelta(seconds=round(seconds)))


def _shapes(shapes: list[tuple[int, ...]]) -> str:
    counts = {shape: shapes.count(shape) for shape in shapes}
    return ", ".join(
        f"{count} x {list(shape)}" if count > 1 else f"{list(shape)}" for shape, count in counts.items()
    )
