"""What a scorer answers to the queries of a task: the token, its kind, its bits, its rank."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from seqmodels.data.tasks.task import Task, TaskRows
from seqmodels.evaluation.scorer import in_flight, most_likely, nll_of_logits, shared_width

_LN2 = float(np.log(2.0))
ANSWER_KINDS = (
    "right",
    "stale answer",
    "another value of the row",
    "a value not in the row",
    "no value",
)
"""A stale answer is the value that a key had before it was written again."""

RIGHT, STALE = 0, 1


class Request(NamedTuple):
    """Rows to ask: `rows` of them from `first` on, with `settings` in place of the task's own."""

    settings: dict[str, Any]
    rows: int
    first: int = 0


def ask(
    scorer,
    task: Task,
    requests: Sequence[Request],
    *,
    split: str,
    batch_size: int,
    training_length: int,
    longest: int,
) -> list[dict[str, np.ndarray]]:
    """The table of each request: a line a query, in order of rows, as columns of equal length.

    Rows of several requests share batches, so that many small requests cost no more than one large one, and
    widths (`shared_width`), so that they share compilations.
    """
    widths = [
        shared_width(task.row_tokens(**request.settings), training_length, longest) for request in requests
    ]
    tables: list[list[dict[str, np.ndarray]]] = [[] for _ in requests]
    batches = _batches(scorer, task, requests, widths, split, batch_size)
    for logits, parts in in_flight(batches, _rows_in_batches(requests, widths, batch_size), batch_size):
        begin = 0
        for index, known in parts:
            end = begin + len(known["row"])
            tables[index].append(_table(logits[begin:end], known, task.value_ids))
            begin = end
    return [{name: np.concatenate([part[name] for part in table]) for name in table[0]} for table in tables]


def _batches(
    scorer, task: Task, requests: Sequence[Request], widths: list[int], split: str, batch_size: int
) -> Iterator[tuple[Any, list[tuple[int, dict[str, np.ndarray]]]]]:
    """(logits of a full batch, [(request, what is known of its queries)]), narrow rows first."""
    gathered: list[tuple[int, TaskRows]] = []
    for index in sorted(range(len(requests)), key=widths.__getitem__):
        settings, left, first = requests[index]
        while left > 0:
            room = batch_size - sum(len(made.batch["tokens"]) for _, made in gathered)
            made = task.rows(split, first, min(left, room), row_length=widths[index], **settings)
            if gathered and _shape(gathered[-1][1]) != _shape(made):
                yield _logits(scorer, gathered, batch_size)
                gathered = []
            gathered.append((index, made))
            first, left = first + len(made.batch["tokens"]), left - len(made.batch["tokens"])
            if sum(len(made.batch["tokens"]) for _, made in gathered) == batch_size:
                yield _logits(scorer, gathered, batch_size)
                gathered = []
    if gathered:
        yield _logits(scorer, gathered, batch_size)


def _rows_in_batches(requests: Sequence[Request], widths: list[int], batch_size: int) -> int:
    """All rows with what fills the last batch of each width up; where rows of one width differ in their
    number of queries, some more batches are filled up.
    """
    rows = Counter()
    for request, width in zip(requests, widths, strict=True):
        rows[width] += request.rows
    return sum(count + -count % batch_size for count in rows.values())


def _shape(made: TaskRows) -> tuple[int, int]:
    return made.batch["tokens"].shape[1], made.batch["scored"].shape[1]


def _logits(scorer, gathered: list[tuple[int, TaskRows]], batch_size: int):
    """A batch that is not full is filled up with rows that are then dropped: one shape, one compilation."""
    columns = []
    for name in ("tokens", "segment_ids", "scored"):
        rows = np.concatenate([made.batch[name] for _, made in gathered])
        columns.append(rows[np.arange(batch_size) % len(rows)])
    return scorer.logits(*columns), [(index, made.metadata) for index, made in gathered]


def _table(logits: np.ndarray, known: dict[str, np.ndarray], value_ids: range) -> dict[str, np.ndarray]:
    """The lines of some rows; places beyond a row's last query are left out."""
    queries = {name: values for name, values in known.items() if name != "values_in_row"}
    judged = judge(logits, known["answer"], known["values_in_row"], value_ids, known.get("stale_answer"))
    asked = known["query_index"] >= 0
    return {name: values[asked] for name, values in {**queries, **judged}.items()}


def judge(
    logits: np.ndarray,
    answer: np.ndarray,
    in_row: np.ndarray,
    value_ids: range,
    stale: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """Of each query [B, n]: the most likely token, its kind, the answer's NLL in bits, and its rank.

    Args:
        logits: [B, n, vocab].
        answer: what is right, [B, n].
        in_row: the row's values, -1 where there are no more, [B, M].
        value_ids: all values that there are.
        stale: the value that the key had before, -1 where it had none, [B, n].

    The rank is among the row's values, 1 the best; a value written twice counts once. Among equal logits it
    is the mean of the ranks that they share, so that a uniform model has that of a guess, (values + 1) / 2.
    Raises NonFiniteError for logits that are NaN or +inf.
    """
    predicted = most_likely(logits)
    repeated = (in_row[:, :, None] == in_row[:, None, :]) & np.tri(in_row.shape[1], k=-1, dtype=bool)
    distinct = (in_row >= 0) & ~repeated.any(axis=-1)
    others = distinct[:, None, :] & (in_row[:, None, :] != answer[..., None])
    own = np.take_along_axis(logits, answer[..., None], axis=-1)
    written = np.broadcast_to(np.maximum(in_row, 0)[:, None, :], (*answer.shape, in_row.shape[1]))
    of_value = np.take_along_axis(logits, written, axis=-1)
    better, equal = ((compared & others).sum(axis=-1) for compared in (of_value > own, of_value == own))
    is_value = (predicted >= value_ids.start) & (predicted < value_ids.stop)
    is_written = (predicted[..., None] == in_row[:, None, :]).any(axis=-1)
    is_stale = np.zeros_like(is_value) if stale is None else predicted == stale
    kind = np.select([predicted == answer, is_stale, is_written, is_value], [RIGHT, STALE, 2, 3], 4)
    return {
        "predicted": predicted,
        "kind": kind,
        "nll_bits": nll_of_logits(logits, answer) / np.float32(_LN2),
        "rank": 1 + better + equal / 2,
    }
