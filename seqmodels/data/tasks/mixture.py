"""A mixture: each row of training from one of several parts, drawn with given weights."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gin

from seqmodels.data.tasks.mixture_stream import MixtureStream
from seqmodels.data.tasks.side_by_side import side_by_side
from seqmodels.data.tasks.task import Task
from seqmodels.data.text import Text
from seqmodels.errors import InputError


@gin.register
class Mixture:
    """Rows of tasks, or of tasks and one text.

    The text keeps its token ids and the tasks' ids stand behind them, one task behind another; tasks whose
    ids stand for the same share them, such as one task with several lengths. Weights are of rows: a row of
    text has a target at every token and a row of a task only at its queries, so that text has more of the
    loss than its weight says.

    Attributes:
        text: the part that is text, or None.
        tasks: the others, with their ids where they are in the mixture; `text` has been prepared.
        fingerprint: a hash of all parts and weights; `text` has been prepared.
    """

    kind = "mixture"

    def __init__(self, parts: tuple[Any, ...] = gin.REQUIRED, weights: tuple[float, ...] = gin.REQUIRED):
        """
        Args:
            parts: tasks and at most one Text.
            weights: of each part, in proportion to which it has rows.
        """
        texts = [part for part in parts if isinstance(part, Text)]
        self._tasks = tuple(part for part in parts if isinstance(part, Task))
        if len(texts) > 1 or not self._tasks or len(texts) + len(self._tasks) < len(parts):
            given = ", ".join(type(part).__name__ for part in parts)
            raise InputError(f"Mixture.parts = ({given}) should be tasks and at most one Text.")
        if len(weights) != len(parts) or min(weights) <= 0:
            raise InputError(
                f"Mixture.weights = {tuple(weights)} should be {len(parts)} numbers above 0, one a part."
            )
        self.text: Text | None = texts[0] if texts else None
        # In the stream the text comes first, wherever it stands in the config.
        ordered = sorted(zip(parts, weights, strict=True), key=lambda pair: not isinstance(pair[0], Text))
        self._shares = tuple(weight / sum(weights) for _, weight in ordered)

    @property
    def tasks(self) -> tuple[Task, ...]:
        return side_by_side(self._tasks, 0 if self.text is None else self.text.vocab_size)

    @property
    def vocab_size(self) -> int:
        return max(task.vocab_size for task in self.tasks)

    @property
    def fingerprint(self) -> str:
        parts = [part.fingerprint for part in (self.text, *self.tasks) if part is not None]
        return hashlib.blake2b(f"{parts} {self._shares}".encode(), digest_size=16).hexdigest()

    def prepare(self, cache_dir: Path | None = None, say: Callable[[str], None] = print) -> None:
        """Prepares the text, if there is one."""
        if self.text is not None:
            self.text.prepare(cache_dir, say)

    def describe(self) -> dict[str, object]:
        """The text and the tasks, and the share of rows that each has."""
        about = {} if self.text is None else self.text.describe()
        names = [*(["Text"] if self.text else []), *(type(task).__name__ for task in self.tasks)]
        shares = [f"{share:.3g} {name}" for name, share in zip(names, self._shares, strict=True)]
        return {
            **about,
            "rows": " + ".join(shares),
            "tasks": [task.describe() for task in self.tasks],
            "vocab_size": self.vocab_size,
        }

    def stream(
        self, batch_size: int, row_length: int, seed: int, process_index: int = 0, process_count: int = 1
    ) -> MixtureStream:
        """Training batches without end; batch_size counts the rows of all processes."""
        share = (process_index, process_count)
        return MixtureStream(self.text, self.tasks, self._shares, batch_size, row_length, seed, *share)
