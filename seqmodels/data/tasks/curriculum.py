"""A curriculum: tasks one after another, each for a number of training rows."""

from typing import Any

import gin
import numpy as np

from seqmodels.data.tasks.side_by_side import join, most_queries, side_by_side
from seqmodels.data.tasks.task import Draw, Sweep, Task, TaskRows, check_least, numbers
from seqmodels.errors import InputError


@gin.register
class Curriculum(Task):
    """Trains on each task in turn; in all else it is the last one, which is what training is for.

    Row i of training is row i of the task whose turn it then is, so that no row comes twice. Rows of
    validation and test, and rows with other settings, are those of the last task. Tasks whose token ids stand
    for the same share them; other ids stand behind one another, in the order of the tasks.
    """

    def __init__(self, tasks: tuple[Task, ...] = gin.REQUIRED, rows: int | tuple[int, ...] = gin.REQUIRED):
        """
        Args:
            tasks: in order, at least one.
            rows: of training, for each task but the last, which goes on without end.
        """
        if not tasks:
            raise InputError("Curriculum.tasks = () holds no task.")
        counts = numbers(rows)
        if len(counts) != len(tasks) - 1:
            raise InputError(
                f"Curriculum.rows = {counts} should be {len(tasks) - 1} numbers, one for each of the "
                f"{len(tasks)} tasks but the last, which goes on without end."
            )
        if counts:
            check_least("Curriculum", rows=counts)
        self.tasks, self._counts = side_by_side(tasks), counts
        self._begins = np.cumsum([0, *counts]).tolist()
        self._queries = most_queries(self.tasks)
        self.key_ids, self.value_ids = self._last.key_ids, self._last.value_ids
        self.filler_ids, self.settings = self._last.filler_ids, self._last.settings
        self.vocab_size = max(task.vocab_size for task in self.tasks)

    @property
    def _last(self) -> Task:
        return self.tasks[-1]

    @property
    def ids(self) -> tuple:
        return tuple(task.ids for task in self.tasks)

    def moved(self, by: int) -> "Task":
        other = super().moved(by)
        other.tasks = tuple(task.moved(by) for task in self.tasks)
        return other

    def row_tokens(self, **changes: Any) -> int:
        if changes:
            return self._last.row_tokens(**changes)
        return max(task.row_tokens() for task in self.tasks)

    def sweeps(self, longest: int) -> list[Sweep]:
        return self._last.sweeps(longest)

    def describe(self) -> dict[str, object]:
        stages = [task.describe() for task in self.tasks]
        return {
            "task": type(self).__name__,
            "rows": self._counts,
            "stages": stages,
            "vocab_size": self.vocab_size,
        }

    def _make(self, draw: Draw, row_length: int, settings: dict[str, Any]) -> TaskRows:
        if draw.split != "train" or settings != self.settings:
            return self._last._make(draw, row_length, settings)
        parts, end = [], draw.first + draw.count
        for task, begin, stop in zip(self.tasks, self._begins, [*self._begins[1:], end], strict=True):
            first, last = max(begin, draw.first), min(stop, end)
            if first < last:
                part = draw._replace(first=first, count=last - first)
                parts.append(task._make(part, row_length, task.settings))
        return join(parts, self._queries)


def measured(task: Task) -> Task:
    """The task that an evaluation asks for: of a curriculum the last one, which may be a curriculum too."""
    while isinstance(task, Curriculum):
        task = task.tasks[-1]
    return task
