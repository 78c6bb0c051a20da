"""Documents as windows, windows as packed rows: which tokens a model sees when a target is scored.

The inputs of a document of text tokens `a b c` are `E a b c` and its targets `a b c E`, where E is the
end-of-text id; without the start token the inputs are `a b c` and `a` is no target. A window is a run of
inputs. Each window becomes a segment of its own, so that packing several into a row changes nothing but the
padding.
"""

import bisect
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from seqmodels.errors import InputError


class Documents(NamedTuple):
    """Documents to score, as spans of one flat token array. All arrays are [documents].

    A document that is not complete was cut short, and E is no target of it.
    """

    tokens: np.ndarray  # flat, text tokens of all documents
    first: np.ndarray
    length: np.ndarray  # text tokens
    scored_bytes: np.ndarray  # of the tokens that are targets
    complete: np.ndarray
    end_id: int
    start_token: bool

    @property
    def inputs(self) -> np.ndarray:
        return np.maximum(self.length + self.start_token - ~self.complete, 0)

    @property
    def scored(self) -> np.ndarray:
        """Text tokens that are targets."""
        return np.maximum(self.length - (not self.start_token), 0)


def documents(store, tokenizer, *, start_token: bool = True, max_tokens: int | None = None) -> Documents:
    """The documents of a token store; with max_tokens a fixed sample of them with that many text tokens.

    The sample takes whole documents in an order drawn from a fixed seed and cuts the last one short.
    """
    offsets = np.asarray(store.offsets, np.int64)
    first, length = offsets[:-1], np.diff(offsets)
    sizes = np.array(store.document_bytes, np.int64)
    complete = np.ones(len(length), bool)
    if max_tokens is not None and length.sum() > max_tokens:
        order = np.random.Generator(np.random.Philox(0)).permutation(len(length))
        total = np.cumsum(length[order])
        chosen = order[: int(np.searchsorted(total, max_tokens)) + 1]
        first, length, sizes, complete = first[chosen], length[chosen], sizes[chosen], complete[chosen]
        excess = int(length.sum()) - max_tokens
        if excess:
            length[-1] -= excess
            complete[-1] = False
            sizes[-1] = len(tokenizer.decode(store.tokens[first[-1] : first[-1] + length[-1]]))
    if not start_token:
        unscored = [
            len(tokenizer.decode(store.tokens[a : a + 1])) if n else 0
            for a, n in zip(first, length, strict=True)
        ]
        sizes = sizes - np.array(unscored, np.int64)
    return Documents(store.tokens, first, length, sizes, complete, tokenizer.end_id, start_token)


class Windows(NamedTuple):
    """Runs of inputs, [windows] each: inputs `start` to `start + length` of a document."""

    document: np.ndarray
    start: np.ndarray
    length: np.ndarray
    scored_from: np.ndarray  # counted from the document's first input


def cut(inputs: np.ndarray, window: int, stride: int) -> Windows:
    """Windows of at most `window` inputs, each `stride` further on, that together score every input once.

    All but a document's first window score their last `stride` positions alone, which have at least
    `window - stride` inputs behind them.
    """
    if not 1 <= stride <= window:
        raise InputError(
            f"stride {stride} with windows of {window}: the stride must be from 1 to the window, or tokens "
            "between windows would never be scored"
        )
    count = np.where(inputs > 0, 1 + np.maximum(0, -(-(inputs - window) // stride)), 0)
    document = np.repeat(np.arange(len(inputs)), count)
    ordinal = np.arange(len(document)) - np.repeat(np.cumsum(count) - count, count)
    start = ordinal * stride
    length = np.minimum(window, inputs[document] - start)
    scored_from = np.where(ordinal == 0, 0, start + window - stride)
    return Windows(document, start, length, scored_from)


def pack(lengths: np.ndarray, row_length: int) -> list[list[int]]:
    """Rows of window indices that fit into row_length: full windows alone, the rest best-fit decreasing."""
    order = np.argsort(-lengths, kind="stable")
    rows = [[int(w)] for w in order[lengths[order] == row_length]]
    room: list[tuple[int, int]] = []  # (free positions, row), ascending
    for w in order[lengths[order] < row_length]:
        at = bisect.bisect_left(room, (int(lengths[w]), -1))
        if at < len(room):
            free, row = room.pop(at)
            rows[row].append(int(w))
        else:
            free, row = row_length, len(rows)
            rows.append([int(w)])
        if free > lengths[w]:
            bisect.insort(room, (free - int(lengths[w]), row))
    return rows


class Rows(NamedTuple):
    """Rows for a scorer, int32 [B, T], with the document that each target is scored for.

    unit: 2 * document for a text token, 2 * document + 1 for E, -1 where nothing is scored. position: that of
    the input in its document's inputs, from 0.
    """

    tokens: np.ndarray
    segment_ids: np.ndarray
    targets: np.ndarray
    unit: np.ndarray
    position: np.ndarray


def fill(
    source: Documents, windows: Windows, rows: list[list[int]], batch_size: int, row_length: int
) -> Rows:
    """The windows of `rows` laid out; rows missing up to batch_size, and room left in a row, are padding."""
    tokens, segments, targets, position = np.zeros((4, batch_size, row_length), np.int32)
    unit = np.full((batch_size, row_length), -1, np.int64)
    inputs = source.inputs
    for r, members in enumerate(rows):
        column = 0
        for segment, w in enumerate(members, start=1):
            d, start, length = int(windows.document[w]), int(windows.start[w]), int(windows.length[w])
            place = slice(column, column + length)
            # Input i of the document is flat token base + i, its target the one after it.
            base = int(source.first[d]) - source.start_token
            at_start = source.start_token and start == 0
            at_end = bool(source.complete[d]) and start + length == inputs[d]
            tokens[r, column + at_start : column + length] = source.tokens[
                base + start + at_start : base + start + length
            ]
            targets[r, column : column + length - at_end] = source.tokens[
                base + start + 1 : base + start + length + 1 - at_end
            ]
            unit[r, column + int(windows.scored_from[w]) - start : column + length] = 2 * d
            if at_start:
                tokens[r, column] = source.end_id
            if at_end:
                targets[r, column + length - 1] = source.end_id
                unit[r, column + length - 1] += 1
            segments[r, place], position[r, place] = segment, np.arange(start, start + length)
            column += length
    return Rows(tokens, segments, targets, unit, position)


def batches(
    source: Documents, windows: Windows, rows: list[list[int]], batch_size: int, row_length: int
) -> Iterator[Rows]:
    """The windows as `pack` packed them, in batches of one shape; the last one is filled up with padding."""
    for first in range(0, len(rows), batch_size):
        yield fill(source, windows, rows[first : first + batch_size], batch_size, row_length)
