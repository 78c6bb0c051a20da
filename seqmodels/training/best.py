"""Which checkpoint of a run is the best."""

import math
from collections.abc import Iterable
from typing import Any

CRITERIA = {"eval/bits_per_byte": min, "eval/recall_area": max}  # a run has one of them


def best_step(lines: Iterable[dict[str, Any]], present: Iterable[int]) -> int | None:
    """The step among `present` with the lowest validation bits per byte, or the highest recall area.

    Args:
        lines: of metrics.jsonl.
        present: the steps to choose from.

    Returns:
        None where none of them was evaluated; of equals the earliest.
    """
    present = set(present)
    for tag, better in CRITERIA.items():
        values = {line["step"]: line[tag] for line in lines if tag in line and line["step"] in present}
        values = {step: value for step, value in values.items() if math.isfinite(value)}
        if values:
            return better(sorted(values), key=values.get)
    return None
