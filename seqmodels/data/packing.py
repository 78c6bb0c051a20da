"""Documents laid end to end and cut into rows, as a pure function of (seed, row index).

A document of n tokens runs from the end-of-text id E to E, so it has n + 1 targets: inputs `E a b`, targets `a b E`.
An epoch lays the documents end to end in an order of its own and cuts that line every `row_length` targets. Where a
cut falls inside a document, the rest goes on in another row as a segment that starts at the token before its first
target: every token is a target once an epoch, and no state crosses rows. The rows of an epoch come in an order of
their own, the last, partial one padded. Nothing but the row's index is ever needed to go on.
"""

from typing import NamedTuple

import numpy as np

from seqmodels.data.random_bits import check_seed, permutation
from seqmodels.data.token_store import TokenStore
from seqmodels.errors import InputError

Batch = dict[str, np.ndarray]


class _Epoch(NamedTuple):
    """The line of one epoch: which document comes when, where it begins, and in which order the rows come."""

    documents: np.ndarray
    starts: np.ndarray
    rows: np.ndarray


class PackedRows:
    """The endless sequence of training rows of a token store.

    Attributes:
        rows_per_epoch: rows that hold every token as a target once.
    """

    def __init__(self, store: TokenStore, row_length: int, end_id: int, seed: int):
        """
        Raises:
            InputError: the store is empty, or does not fill one row.
        """
        check_seed(seed)
        if row_length < 1:
            raise InputError(f"row_length = {row_length} should be at least 1.")
        targets = len(store.tokens) + len(store)
        if not len(store):
            raise InputError("the training corpus is empty: no document holds any text.")
        if targets < row_length:
            raise InputError(
                f"the training corpus gives {targets} targets ({len(store.tokens)} tokens and an end-of-text id for "
                f"each of its {len(store)} documents), less than one row of row_length = {row_length}."
            )
        self.rows_per_epoch = -(-targets // row_length)
        self._store, self._row_length, self._end_id, self._seed = store, row_length, end_id, seed
        self._offsets = np.asarray(store.offsets)
        self._epochs: dict[int, _Epoch] = {}

    def batch(self, indices: np.ndarray) -> Batch:
        """The rows with these indices, counted from 0 through all epochs: a batch of `[len(indices), row_length]`."""
        epochs, within = np.divmod(np.asarray(indices, np.int64), self.rows_per_epoch)
        if len(epochs) and epochs[0] == epochs[-1]:
            return self._cut(self._epoch(int(epochs[0])), within)
        parts = [self._cut(self._epoch(int(epoch)), within[epochs == epoch]) for epoch in np.unique(epochs)]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _epoch(self, number: int) -> _Epoch:
        if number not in self._epochs:
            key = (self._seed, number)
            documents = permutation(key, len(self._store))
            lengths = np.diff(self._offsets)[documents] + 1
            starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
            self._epochs = {n: epoch for n, epoch in self._epochs.items() if n == number - 1}
            self._epochs[number] = _Epoch(documents, starts, permutation(key, self.rows_per_epoch, stream=1))
        return self._epochs[number]

    def _cut(self, epoch: _Epoch, within: np.ndarray) -> Batch:
        """Rows of one epoch. A piece is the part of one document that lies in one row."""
        batch, length = len(within), self._row_length
        row_start = epoch.rows[within] * length
        row_end = np.minimum(row_start + length, epoch.starts[-1])
        first = np.searchsorted(epoch.starts, row_start, "right") - 1
        last = np.searchsorted(epoch.starts, row_end - 1, "right") - 1
        pieces = last - first + 1

        row = np.repeat(np.arange(batch), pieces)
        ordinal = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        place = first[row] + ordinal
        start = np.maximum(epoch.starts[place], row_start[row])
        end = np.minimum(epoch.starts[place + 1], row_end[row])
        source = self._offsets[epoch.documents[place]] + start - epoch.starts[place]

        # One run of positions a piece, in the order of the rows; a padded row simply has fewer.
        column = start - row_start[row]
        at = row * length + column
        ends_document = end == epoch.starts[place + 1]
        text = end - start - ends_document
        flat = _runs(at, text)
        targets = np.zeros(batch * length, np.int32)
        targets[flat] = self._store.tokens[_runs(source, text)]
        targets[(at + end - start - 1)[ends_document]] = self._end_id

        tokens = np.empty((batch, length), np.int32)
        tokens[:, 1:] = targets.reshape(batch, length)[:, :-1]
        opens = row_start == epoch.starts[first]
        before = self._store.tokens[np.where(opens, 0, source[ordinal == 0] - 1)]
        tokens[:, 0] = np.where(opens, self._end_id, before)

        segment_ids = np.zeros(batch * length, np.int32)
        segment_ids[_runs(at, end - start)] = np.repeat(ordinal + 1, end - start)
        segment_ids = segment_ids.reshape(batch, length)
        return {
            "tokens": np.where(segment_ids > 0, tokens, 0),
            "targets": targets.reshape(batch, length),
            "segment_ids": segment_ids,
            "loss_weights": (segment_ids > 0).astype(np.float32),
        }


class PackedStream:
    """This process's share of each global batch of packed rows, without end.

    Process k of n takes the k-th n-th of every batch, so the processes' rows are disjoint, their union is the batch,
    and a position saved by n processes is that of any other number. Batches run on across the end of an epoch, so no
    process ever has fewer.
    """

    def __init__(self, rows: PackedRows, batch_size: int, process_index: int = 0, process_count: int = 1):
        """batch_size: rows of the global batch, a multiple of process_count."""
        self._rows, self._batch_size, self._next_row = rows, batch_size, 0
        self._share = process_share(batch_size, process_index, process_count)

    def __iter__(self) -> "PackedStream":
        return self

    def __next__(self) -> Batch:
        batch = self._rows.batch(self._next_row + self._share)
        self._next_row += self._batch_size
        return batch

    def state(self) -> dict[str, int]:
        """The position after the last batch handed out, counted in rows of all processes."""
        return {"row": self._next_row}

    def restore(self, state: dict[str, int]) -> None:
        self._next_row = state["row"]


def process_share(batch_size: int, process_index: int, process_count: int) -> np.ndarray:
    """The places in a global batch that a process fills.

    Raises:
        InputError: the batch cannot be divided evenly.
    """
    if batch_size < 1 or batch_size % process_count:
        raise InputError(f"batch_size = {batch_size} should be a multiple of the {process_count} processes.")
    share = batch_size // process_count
    return np.arange(process_index * share, (process_index + 1) * share)


def _runs(begin: np.ndarray, length: np.ndarray) -> np.ndarray:
    """`begin[0], begin[0] + 1, ...` for length[0] numbers, then the same for begin[1], and so on."""
    before = np.cumsum(length) - length
    return np.arange(length.sum()) + np.repeat(begin - before, length)
