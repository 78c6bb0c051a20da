"""Drawn tokens written into rows, and rows with their questions made into a batch."""

import numpy as np

from seqmodels.data.tasks.task import Draw, TaskRows


def put(
    tokens: np.ndarray, at: np.ndarray, items: np.ndarray, kept: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Writes each row's items side by side, without those that are not kept.

    Args:
        tokens: int32 `[B, T]`, written into.
        at: `[B]`, where the first item goes.
        items: `[B, N]`.
        kept: bool `[B, N]`; all by default.

    Returns:
        The place of each item `[B, N]` (of one that is not kept, that of the next), and the place behind the
        last one `[B]`.
    """
    if kept is None:
        places = at[:, None] + np.arange(items.shape[1])
        tokens[np.arange(len(tokens))[:, None], places] = items
        return places, at + items.shape[1]
    places = at[:, None] + np.cumsum(kept, axis=1) - kept
    row, item = np.nonzero(kept)
    tokens[row, places[row, item]] = items[row, item]
    return places, at + kept.sum(axis=1)


def task_rows(
    draw: Draw,
    tokens: np.ndarray,
    length: np.ndarray | int,
    scored: np.ndarray,
    answer: np.ndarray,
    source: np.ndarray,
    *,
    pairs: np.ndarray | int,
    values_in_row: np.ndarray,
    kept: np.ndarray | None = None,
    **known: np.ndarray | int,
) -> TaskRows:
    """The batch and metadata of rows whose tokens are written.

    Args:
        tokens: int32 `[B, T]`, 0 behind the length.
        length: tokens of each row, `[B]` or one for all.
        scored: `[B, n]`, the positions of the queries.
        answer: `[B, n]`, what is right there.
        source: `[B, n]`, where in the row that was written: the distance is from there to the query.
        pairs, values_in_row: see `TaskRows`; pairs is `[B]` or one for all.
        kept: bool `[B, n]`, false for queries that a row does not have; all by default.
        known: more metadata, each of which broadcasts to `[B, n]`.
    """
    count, queries = scored.shape
    if kept is None:
        kept = np.ones(scored.shape, bool)
    of, query = np.nonzero(kept)
    place = scored[of, query]
    targets, weights = np.zeros_like(tokens), np.zeros(tokens.shape, np.float32)
    targets[of, place], weights[of, place] = answer[of, query], 1
    if not kept.all():
        scored = np.where(kept, scored, weights.argmin(axis=1)[:, None])
    end = np.broadcast_to(length, (count,))[:, None]
    batch = {
        "tokens": tokens,
        "targets": targets,
        "segment_ids": (np.arange(tokens.shape[1]) < end).astype(np.int32),
        "loss_weights": weights,
        "scored": scored.astype(np.int32),
    }
    of_query = {
        "distance": np.where(kept, scored - source, 0),
        **known,
        "pairs": np.broadcast_to(pairs, (count,))[:, None],
        "query_index": np.where(kept, np.cumsum(kept, axis=1) - 1, -1),
        "row": draw.first + np.arange(count)[:, None],
        "answer": np.where(kept, answer, 0),
    }
    metadata = {
        name: np.array(np.broadcast_to(x, (count, queries)), np.int64) for name, x in of_query.items()
    }
    return TaskRows(batch, {**metadata, "values_in_row": values_in_row.astype(np.int64)})
