"""Numbers that JSON does not have, in the files of an evaluation."""

import math
from typing import Any


def encoded(value: Any) -> Any:
    """The value with "inf" and "-inf" for the infinities, which Python's float() reads, and None for NaN.

    They mean different things: a horizon is infinite where accuracy is still above 1/2 at the end of what was
    measured; the bounds of an interval are NaN where they are not known.
    """
    if isinstance(value, dict):
        return {name: encoded(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [encoded(item) for item in value]
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if math.isnan(value) else str(float(value))


def decoded(number: float | str | None) -> float:
    """A number as `encoded` has written it."""
    return math.nan if number is None else float(number)
