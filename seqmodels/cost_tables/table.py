"""A table of figures that carries its own checks."""

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp

COUNT_TOLERANCE = 0.05


@dataclass
class Table:
    """Rows of cells under a header, a note on how to read them, and checks: (what must hold, does it)."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    note: str = ""
    checks: list[tuple[str, bool]] = field(default_factory=list)


def compact(number: float) -> str:
    """Three or four digits and a unit: 8.4 M, 134 M, 2147 M."""
    for unit, size in (("G", 1e10), ("M", 1e6), ("k", 1e4)):
        if number >= size:
            scaled = number / {"G": 1e9, "M": 1e6, "k": 1e3}[unit]
            return f"{scaled:,.1f} {unit}" if scaled < 100 else f"{scaled:,.0f} {unit}"
    return f"{number:,.0f}"


def close(got: float, wanted: float, tolerance: float = COUNT_TOLERANCE) -> bool:
    """Within `tolerance` of `wanted`."""
    return abs(got - wanted) <= tolerance * abs(wanted)


def shape(*sizes: int) -> jax.ShapeDtypeStruct:
    """A float32 array that is not there."""
    return jax.ShapeDtypeStruct(sizes, jnp.float32)
