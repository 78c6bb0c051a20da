"""What can be logged as a scalar."""

from typing import Any


def numbers(values: dict[str, Any]) -> tuple[dict[str, float], dict[str, str]]:
    """Parts figures by tag into numbers of Python's own, exact for every type, and what is no number.

    Returns:
        (the numbers, the types of the others); arrays of no axes are numbers, longer ones are not.
    """
    plain = {tag: value.item() if getattr(value, "ndim", 1) == 0 else value for tag, value in values.items()}
    found = {tag: value for tag, value in plain.items() if isinstance(value, int | float)}
    return found, {tag: type(value).__name__ for tag, value in values.items() if tag not in found}
