"""The rows that a model's memory is measured on, and what kind of token stands where."""

import dataclasses
from typing import Any

import numpy as np

from seqmodels.data.tasks.task import Task
from seqmodels.evaluation.scorer import shared_width

# Shorter windows of text show no more than the short convolutions.
LEAST_TEXT = 16


@dataclasses.dataclass(frozen=True)
class MemoryRows:
    """Rows of one document each, padded on the right.

    tokens, segment_ids: [R, T] int32. last: [R], the position whose prediction is looked at; target: [R],
    what is right there. kinds: of tokens; kind: [R, T], the index of each token's, -1 at padding. about:
    where the rows come from.
    """

    tokens: np.ndarray
    segment_ids: np.ndarray
    last: np.ndarray
    target: np.ndarray
    kinds: tuple[str, ...]
    kind: np.ndarray
    about: dict[str, Any]

    @property
    def lags(self) -> int:
        """How many tokens, the last one included, every row has up to its prediction."""
        return int(self.last.min()) + 1


def of_task(task: Task, *, rows: int, split: str, training_length: int, longest: int) -> MemoryRows:
    """Rows at the far end of the task's principal sweep, seen from their last query.

    There lies as much between what was written and the query as rows of up to `longest` tokens hold, so that
    what a memory can reach shows, not only where the answers of training stood.
    """
    sweep = task.sweeps(longest)[0]
    point = sweep.points[-1]
    width = shared_width(task.row_tokens(**point.settings), training_length, longest)
    batch = task.rows(split, 0, rows, row_length=width, **point.settings).batch
    scored = batch["loss_weights"] > 0
    last = width - 1 - scored[:, ::-1].argmax(axis=1)
    segment_ids = np.where(np.arange(width) <= last[:, None], batch["segment_ids"], 0).astype(np.int32)
    target = np.take_along_axis(batch["targets"], last[:, None], axis=1)[:, 0]
    kinds, kind = _kinds(task, batch["tokens"], segment_ids)
    about = {
        "split": split,
        "point": f"{sweep.name}, {sweep.axis}: {point.at}",
        **point.settings,
        "rows_hash": task.rows_hash(split, 0, rows, row_length=width, **point.settings),
    }
    return MemoryRows(batch["tokens"], segment_ids, last.astype(np.int32), target, kinds, kind, about)


def _kinds(task: Task, tokens: np.ndarray, segment_ids: np.ndarray) -> tuple[tuple[str, ...], np.ndarray]:
    """Which of the task's alphabets each token is of; "other" where it is of none."""
    of_id = np.full(task.vocab_size, 3)
    names = ("filler", "key", "value", "other")
    for index, ids in enumerate((task.filler_ids, task.key_ids, task.value_ids)):
        of_id[ids.start : ids.stop] = index
    found = np.where(segment_ids != 0, of_id[tokens], -1)
    present = [index for index in range(4) if (found == index).any()]
    renumbered = np.full(5, -1)
    renumbered[present] = np.arange(len(present))
    return tuple(names[index] for index in present), renumbered[found]


def of_text(store, tokenizer, *, rows: int, longest: int) -> MemoryRows | None:
    """Windows of `longest` tokens, evenly spread over the text, each behind an end-of-text token.

    Shorter where the text is; None where it has fewer than 17 tokens.
    """
    length = min(longest, len(store.tokens) - 1)
    if length < LEAST_TEXT:
        return None
    start = (np.arange(rows) / rows * (len(store.tokens) - length)).astype(np.int64)
    text = np.asarray(store.tokens[start[:, None] + np.arange(length)], np.int32)
    tokens = np.concatenate([np.full((rows, 1), tokenizer.end_id, np.int32), text[:, :-1]], axis=1)
    return MemoryRows(
        tokens=tokens,
        segment_ids=np.ones_like(tokens),
        last=np.full(rows, length - 1, np.int32),
        target=text[:, -1],
        kinds=("text",),
        kind=np.zeros(tokens.shape, np.int64),
        about={"windows": f"{rows} of {length} tokens"},
    )
