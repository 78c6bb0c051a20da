"""Documents laid end to end and cut into rows, as a pure function of (seed, row index).

A document of n tokens runs from the end-of-text id E to E, so it has n + 1 targets: inputs `E a b`, targets
`a b E`. An epoch lays the documents end to end in an order of its own and cuts that line every `row_length`
targets. Where a cut falls inside a document, the rest goes on in another row as a segment that starts at the
token before its first target: every token is a target once an epoch, and no state crosses rows. The rows of
an epoch come in an order of their own; the last one cut is padded. Row indices count on through the epochs.
"""

from typing import NamedTuple

import numpy as np

from seqmodels.data.random_bits import check_seed, permutation
from seqmodels.data.token_store import TokenStore
from seqmodels.errors import InputError

Batch = dict[str, np.ndarray]
"""tokens, targets, segment_ids int32 `[B, T]`, loss_weights float32 `[B, T]`."""


class _Epoch(NamedTuple):
    """The line of one epoch: which document comes when, where it begins, and in which order the rows come."""

    documents: np.ndarray
    starts: np.ndarray
    rows: np.ndarray


class PackedRows:
    """The endless sequence of training rows of a token store.

    Attributes:
        rows_per_epoch: the rows that hold every token as a target once.
    """

    def __init__(self, store: TokenStore, row_length: int, end_id: int, seed: int):
        """Raises InputError if the store does not fill one row."""
        check_seed(seed)
        if row_length < 1:
            raise InputError(f"row_length = {row_length} should be at least 1.")
        targets = len(store.tokens) + len(store)
        if targets < row_length:
            raise InputError(
                f"the training corpus has {targets} targets ({len(store.tokens)} tokens, and an end of text "
                f"for each of {len(store)} documents), fewer than one row of row_length = {row_length}."
            )
        self.rows_per_epoch = -(-targets // row_length)
        self._row_length, self._end_id, self._seed = row_length, end_id, seed
        self._tokens, self._offsets = np.asarray(store.tokens), np.asarray(store.offsets)
        self._epochs: dict[int, _Epoch] = {}

    def batch(self, indices: np.ndarray) -> Batch:
        """The rows with these indices, in rising order: a batch of `[len(indices), row_length]`."""
        epochs, within = np.divmod(indices, self.rows_per_epoch)
        numbers = np.unique(epochs).tolist()
        parts = [self._cut(self._epoch(number), within[epochs == number]) for number in numbers]
        if len(parts) == 1:
            return parts[0]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _epoch(self, number: int) -> _Epoch:
        """An epoch's line; the one before it is kept, for batches across the border."""
        if number not in self._epochs:
            key = (self._seed, number)
            documents = permutation(key, len(self._offsets) - 1)
            lengths = np.diff(self._offsets)[documents] + 1
            starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
            self._epochs = {kept: epoch for kept, epoch in self._epochs.items() if kept == number - 1}
            self._epochs[number] = _Epoch(documents, starts, permutation(key, self.rows_per_epoch, stream=1))
        return self._epochs[number]

    def _cut(self, epoch: _Epoch, within: np.ndarray) -> Batch:
        """Rows of one epoch. A piece is what one row holds of one document."""
        length = self._row_length
        row_start = epoch.rows[within] * length
        row_end = np.minimum(row_start + length, epoch.starts[-1])
        first = np.searchsorted(epoch.starts, row_start, "right") - 1
        last = np.searchsorted(epoch.starts, row_end - 1, "right") - 1

        pieces = last - first + 1
        row = np.repeat(np.arange(len(within)), pieces)
        ordinal = _counting(np.zeros_like(pieces), pieces)
        place = first[row] + ordinal
        start = np.maximum(epoch.starts[place], row_start[row])
        end = np.minimum(epoch.starts[place + 1], row_end[row])
        source = self._offsets[epoch.documents[place]] + start - epoch.starts[place]

        # All real positions of the rows, end to end. The target behind a document's last token is E.
        index = _counting(source, end - start)
        is_end = np.cumsum(end - start)[end == epoch.starts[place + 1]] - 1
        index[is_end] = 0
        targets = self._tokens[index].astype(np.int32)
        targets[is_end] = self._end_id
        tokens = np.empty_like(targets)
        tokens[1:] = targets[:-1]
        opens = row_start == epoch.starts[first]
        before = np.where(opens, 0, source[ordinal == 0] - 1)
        row_begins = np.cumsum(row_end - row_start) - (row_end - row_start)
        tokens[row_begins] = np.where(opens, self._end_id, self._tokens[before])
        segment_ids = np.repeat((ordinal + 1).astype(np.int32), end - start)

        real = np.arange(length) < (row_end - row_start)[:, None]
        return {
            "tokens": _padded(tokens, real),
            "targets": _padded(targets, real),
            "segment_ids": _padded(segment_ids, real),
            "loss_weights": real.astype(np.float32),
        }


class PackedStream:
    """This process's share of each global batch of packed rows, without end.

    Process k of n takes the k-th n-th of every batch: the processes' rows are disjoint, their union is the
    batch, and a position saved by n processes is that of any other number. Batches run on across the end of
    an epoch, so that no process ever has fewer.
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
        """The position after the last batch handed out, in rows of all processes."""
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


def _counting(start: np.ndarray, length: np.ndarray) -> np.ndarray:
    """`start[0], start[0] + 1, ...`, length[0] numbers, then the same from start[1], and so on."""
    before = np.cumsum(length) - length
    return np.arange(length.sum()) + np.repeat(start - before, length)


def _padded(values: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Values end to end, put where `real` `[B, T]` is true; 0 elsewhere."""
    if values.size == real.size:
        return values.reshape(real.shape)
    padded = np.zeros(real.shape, values.dtype)
    padded[real] = values
    return padded
