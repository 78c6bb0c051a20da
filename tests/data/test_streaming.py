"""If these fail, a streamed run loses or repeats text, above all when it is interrupted."""

import json

import numpy as np
import pytest

from seqmodels.data import streaming
from seqmodels.data.random_bits import permutation
from seqmodels.data.streaming import StreamedRows
from seqmodels.data.tokenizers import ByteTokenizer
from seqmodels.errors import InputError

END = 256


class Listed:
    """A document stream over a list."""

    def __init__(self, documents):
        self._documents, self._at = documents, 0

    def __iter__(self):
        return self

    def __next__(self):
        if self._at == len(self._documents):
            raise StopIteration
        self._at += 1
        return self._documents[self._at - 1]

    def state(self):
        return {"at": self._at}

    def restore(self, state):
        self._at = state["at"]

    def rewind(self):
        self._at = 0


DOCUMENTS = [bytes([97 + i]) * (1 + i * 5 % 13) for i in range(12)]


def rows(window=5, batch_size=2, row_length=7, seed=42, documents=DOCUMENTS, **share):
    return StreamedRows(Listed(documents), ByteTokenizer(), batch_size, row_length, seed, window, **share)


def lines(seed, window, passes):
    """The documents of some passes in the order of their rows, window by window, by hand."""
    number, line = 0, []
    for _ in range(passes):
        for first in range(0, len(DOCUMENTS), window):
            part = DOCUMENTS[first : first + window]
            line += [part[i] for i in permutation((seed, number), len(part))]
            number += 1
    return line


@pytest.mark.parametrize("window", [1, 5, 12, 100])
def test_rows_are_the_documents_laid_end_to_end(window):
    stream, batches = rows(window), []
    documents = lines(42, window, passes=3)
    total = sum(len(document) + 1 for document in documents)
    for _ in range(total // 14):
        batches.append(next(stream))
    inputs = [token for document in documents for token in (END, *document)]
    targets = [token for document in documents for token in (*document, END)]
    names = [number for number, document in enumerate(documents) for _ in range(len(document) + 1)]
    whole = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    count = whole["tokens"].size
    assert whole["tokens"].ravel().tolist() == inputs[:count]
    assert whole["targets"].ravel().tolist() == targets[:count]
    assert (whole["loss_weights"] == 1).all()
    for row, of in zip(whole["segment_ids"], np.reshape(names[:count], (-1, 7)), strict=True):
        assert row.tolist() == (of - of[0] + 1).tolist()
    assert {name: array.dtype.name for name, array in whole.items()} == {
        "tokens": "int32",
        "targets": "int32",
        "segment_ids": "int32",
        "loss_weights": "float32",
    }


@pytest.mark.parametrize("window", [1, 5, 12])
def test_a_fresh_stream_goes_on_where_another_stopped(window):
    """Stopped after every batch of three passes, also at the borders of windows and passes."""
    stream = rows(window)
    states, batches = [json.dumps(stream.state())], []
    for _ in range(25):
        batches.append(next(stream))
        states.append(json.dumps(stream.state()))
    for stop in range(25):
        resumed = rows(window)
        resumed.restore(json.loads(states[stop]))
        for expected in batches[stop : stop + 3]:
            for name, array in next(resumed).items():
                assert np.array_equal(array, expected[name])


def test_order_changes_with_pass_and_seed():
    firsts = []
    for seed in (0, 1):
        documents = lines(seed, 12, passes=3)
        stream = rows(12, 1, sum(map(len, DOCUMENTS)) + 12, seed)
        for i in range(3):
            targets = next(stream)["targets"][0]
            text = ByteTokenizer().decode(targets)
            assert text == b"".join(documents[12 * i : 12 * i + 12])
            firsts.append(targets.tobytes())
    assert len(set(firsts)) == 6


def test_processes_share_each_batch_whatever_the_number_of_shards():
    one, two = rows(), [rows(process_index=index, process_count=2) for index in (0, 1)]
    for _ in range(20):
        whole, halves = next(one), [next(stream) for stream in two]
        for name in whole:
            assert np.array_equal(whole[name], np.concatenate([half[name] for half in halves]))
    assert one.state() == two[0].state() == two[1].state()


def test_a_stream_without_text_is_refused():
    with pytest.raises(InputError, match="the training stream is empty"):
        rows(documents=[])


def test_a_window_of_long_documents_is_cut_short(monkeypatch):
    """A thousand books would not fit into memory; and a stopped stream goes on as if it had not stopped."""
    monkeypatch.setattr(streaming, "_WINDOW_BYTES", 20)
    stream = rows(window=5, batch_size=1, row_length=1)
    line, held = [], []
    for _ in range(150):
        state = stream.state()
        line.append(int(next(stream)["targets"][0, 0]))
        resumed = rows(window=5, batch_size=1, row_length=1)
        resumed.restore(json.loads(json.dumps(state)))
        assert int(next(resumed)["targets"][0, 0]) == line[-1]
        held.append(len(stream._window.targets))
    first_pass = line[: sum(map(len, DOCUMENTS)) + len(DOCUMENTS)]
    assert sorted(first_pass) == sorted(b"".join(DOCUMENTS)) + [END] * len(DOCUMENTS)
    assert max(held) <= 20 + max(map(len, DOCUMENTS)) + 5
