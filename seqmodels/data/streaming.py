"""Rows of documents that are read as they are needed, with a position that restores exactly.

A pass is read in windows of some documents, or of 32 MiB where these are long; each window is put into an
order of its own and laid end to end, document after document with the end-of-text id E between, as in
packing. Rows are cut from the line of all windows and passes, so only a window is ever held, and a position
is small: where the source stood at the window's first document, and how many targets of the window are used.
"""

from typing import NamedTuple, Protocol

import numpy as np

from seqmodels.data.packing import Batch, process_share
from seqmodels.data.random_bits import check_seed, permutation
from seqmodels.data.tokenizers import Tokenizer
from seqmodels.errors import InputError

_WINDOW_BYTES = 32 << 20


class DocumentStream(Protocol):
    """One pass over documents at a time."""

    def __next__(self) -> bytes: ...
    def state(self) -> dict: ...
    def restore(self, state: dict) -> None: ...
    def rewind(self) -> None: ...


class _Window(NamedTuple):
    """The line of some documents: its targets, and which document each belongs to."""

    source: dict
    targets: np.ndarray
    document: np.ndarray


class StreamedRows:
    """This process's share of each global batch of rows from a document stream, without end.

    Every process reads the whole stream and keeps its own rows: each document serves once a pass, whatever
    the number of shards and processes, and a position saved by one number of processes is that of any other.
    """

    def __init__(
        self,
        documents: DocumentStream,
        tokenizer: Tokenizer,
        batch_size: int,
        row_length: int,
        seed: int,
        window: int,
        process_index: int = 0,
        process_count: int = 1,
    ):
        """window: documents that are put into a random order together."""
        check_seed(seed)
        self._share = process_share(batch_size, process_index, process_count)
        self._documents, self._tokenizer, self._seed, self._size = documents, tokenizer, seed, window
        self._shape = (batch_size, row_length)
        self._number, self._used = 0, 0
        self._window = self._read(0)

    def __iter__(self) -> "StreamedRows":
        return self

    def __next__(self) -> Batch:
        needed = self._shape[0] * self._shape[1]
        previous = self._window.targets[self._used - 1] if self._used else self._tokenizer.end_id
        targets, documents, before = [], [], 0
        while needed:
            if self._used == len(self._window.targets):
                before += int(self._window.document[-1]) + 1
                self._number, self._used = self._number + 1, 0
                self._window = self._read(self._number)
            part = slice(self._used, self._used + needed)
            targets.append(self._window.targets[part])
            documents.append(self._window.document[part] + before)
            self._used += len(targets[-1])
            needed -= len(targets[-1])
        flat = np.concatenate(targets)
        document = np.concatenate(documents).reshape(self._shape)
        batch = {
            "tokens": np.concatenate([[previous], flat[:-1]]).reshape(self._shape).astype(np.int32),
            "targets": flat.reshape(self._shape).astype(np.int32),
            "segment_ids": (document - document[:, :1] + 1).astype(np.int32),
            "loss_weights": np.ones(self._shape, np.float32),
        }
        return {name: array[self._share] for name, array in batch.items()}

    def state(self) -> dict:
        """The position after the last batch handed out."""
        return {"source": self._window.source, "window": self._number, "used": self._used}

    def restore(self, state: dict) -> None:
        self._documents.restore(state["source"])
        self._number, self._used = state["window"], state["used"]
        self._window = self._read(self._number)

    def _read(self, number: int) -> _Window:
        source = self._documents.state()
        documents = self._next_documents()
        if not documents:
            self._documents.rewind()
            source = self._documents.state()
            documents = self._next_documents()
        if not documents:
            raise InputError("the training stream is empty: no document holds any text.")
        order = permutation((self._seed, number), len(documents))
        ids, lengths = self._tokenizer.encode_documents([documents[i] for i in order])
        ends = np.cumsum(lengths + 1) - 1
        targets = np.empty(len(ids) + len(lengths), np.int64)
        is_end = np.zeros(len(targets), bool)
        is_end[ends] = True
        targets[is_end], targets[~is_end] = self._tokenizer.end_id, ids
        return _Window(source, targets, np.repeat(np.arange(len(lengths)), lengths + 1))

    def _next_documents(self) -> list[bytes]:
        documents, size = [], 0
        while len(documents) < self._size and size < _WINDOW_BYTES:
            document = next(self._documents, None)
            if document is None:
                break
            documents.append(document)
            size += len(document)
        return documents
