"""If these fail, some token is trained on twice or never, or a run does not go on where it stopped."""

import hypothesis.strategies as st
import numpy as np
import pytest

from seqmodels.data.packing import PackedRows, PackedStream, process_share
from seqmodels.data.random_bits import permutation
from seqmodels.errors import InputError
from tests.fuzzing import fuzz

END = 256


def line_of(documents, seed, epoch):
    """(input, target, document) of every position of an epoch, document after document, by hand."""
    line = []
    for number in permutation((seed, epoch), len(documents)):
        inputs = [END, *documents[number]]
        targets = [*documents[number], END]
        line += [(x, y, number) for x, y in zip(inputs, targets, strict=True)]
    return line


def rows_of(line, length):
    """The rows of an epoch in the order in which they are cut: (tokens, targets, segment ids, weights)."""
    rows = []
    for at in range(0, len(line), length):
        part = line[at : at + length]
        pad = [0] * (length - len(part))
        seen = list(dict.fromkeys(document for _, _, document in part))
        rows.append(
            (
                [x for x, _, _ in part] + pad,
                [y for _, y, _ in part] + pad,
                [seen.index(document) + 1 for _, _, document in part] + pad,
                [1.0] * len(part) + pad,
            )
        )
    return rows


def as_tuples(batch):
    names = ("tokens", "targets", "segment_ids", "loss_weights")
    return list(zip(*(batch[name].tolist() for name in names), strict=True))


DOCUMENTS = [b"ab", b"c", b"defghijklmnop", b"qrs", b"tuvwxyz01234", b"56", b"789"]


@pytest.mark.parametrize("length", [1, 2, 3, 5, 8, 13, 43])
def test_rows_are_the_line_cut_by_hand(store_of, length):
    rows = PackedRows(store_of(DOCUMENTS), length, END, seed=3)
    for epoch in (0, 1, 2):
        expected = rows_of(line_of(DOCUMENTS, 3, epoch), length)
        assert rows.rows_per_epoch == len(expected)
        batch = rows.batch(epoch * len(expected) + np.arange(len(expected)))
        order = permutation((3, epoch), len(expected), stream=1)
        assert as_tuples(batch) == [tuple(map(list, expected[row])) for row in order.tolist()]
        assert {name: array.dtype.name for name, array in batch.items()} == {
            "tokens": "int32",
            "targets": "int32",
            "segment_ids": "int32",
            "loss_weights": "float32",
        }


def test_the_documented_example(store_of):
    """Documents "ab" and "cd": a b E c d E as targets, E before each document as input."""
    batch = PackedRows(store_of([b"ab", b"cd"]), 6, END, seed=0).batch(np.arange(1))
    first, second = (b"ab", b"cd") if batch["targets"][0, 0] == ord("a") else (b"cd", b"ab")
    assert batch["tokens"].tolist() == [[END, *first, END, *second]]
    assert batch["targets"].tolist() == [[*first, END, *second, END]]
    assert batch["segment_ids"].tolist() == [[1, 1, 1, 2, 2, 2]]


@fuzz(
    documents=st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=40),
    length=st.integers(1, 64),
    seed=st.integers(0, 2**63 - 1),
    campaign=500,
)
def test_every_token_is_a_target_once_an_epoch(documents, length, seed, store_of):
    targets = sum(map(len, documents)) + len(documents)
    rows = PackedRows(store_of(documents), min(length, targets), END, seed)
    for epoch in (0, 1):
        batch = rows.batch(epoch * rows.rows_per_epoch + np.arange(rows.rows_per_epoch))
        scored = batch["targets"][batch["loss_weights"] == 1]
        assert sorted(scored.tolist()) == sorted(b"".join(documents)) + [END] * len(documents)
        # Inside a segment every input is the target before it.
        inside = np.diff(batch["segment_ids"], axis=1) == 0
        assert (batch["tokens"][:, 1:] == batch["targets"][:, :-1])[inside].all()


def test_orders_differ_by_epoch_and_by_seed(store_of):
    """8 sequences of one row each, 3 epochs, seeds 0 and 1: each epoch a permutation, no two orders alike."""
    store = store_of([bytes([65 + i] * 3) for i in range(8)])
    orders = {}
    for seed in (0, 1, 2**40):
        rows = PackedRows(store, 4, END, seed)
        for epoch in range(3):
            order = rows.batch(epoch * 8 + np.arange(8))["targets"][:, 0].tolist()
            assert sorted(order) == list(range(65, 73))
            orders[seed, epoch] = tuple(order)
    assert len(set(orders.values())) == len(orders), "one epoch repeats another, or another seed's"
    again = PackedRows(store, 4, END, 1).batch(16 + np.arange(8))["targets"][:, 0]
    assert tuple(again.tolist()) == orders[1, 2], "the same seed and epoch must give the same order"


def test_resume_inside_a_later_epoch(store_of):
    """10 rows, batches of 2 (and of 4, which run across the end of an epoch), stopped after every step."""
    store = store_of([bytes([65 + i] * 3) for i in range(10)])
    for batch_size in (2, 4):
        straight = PackedStream(PackedRows(store, 4, END, 5), batch_size)
        batches, states = [], []
        for _ in range(15):
            batches.append(next(straight))
            states.append(straight.state())
        for stop in range(14):
            resumed = PackedStream(PackedRows(store, 4, END, 5), batch_size)
            resumed.restore(states[stop])
            for name, array in next(resumed).items():
                assert np.array_equal(array, batches[stop + 1][name])


@pytest.mark.parametrize("documents", [[b"one file of some length in a single document"], DOCUMENTS[:5]])
def test_processes_share_each_batch(store_of, documents):
    """Two processes: disjoint, together the batch of one process, equally many batches, position alike."""
    store = store_of(documents)
    one = PackedStream(PackedRows(store, 4, END, 0), 4)
    two = [PackedStream(PackedRows(store, 4, END, 0), 4, index, 2) for index in (0, 1)]
    for _ in range(2 * PackedRows(store, 4, END, 0).rows_per_epoch):
        whole, halves = next(one), [next(stream) for stream in two]
        for name in whole:
            assert np.array_equal(whole[name], np.concatenate([half[name] for half in halves]))
    assert one.state() == two[0].state() == two[1].state()


def test_another_number_of_processes_goes_on_where_one_stopped(store_of):
    """Process 0 of 2 stops after 6 of its rows: its next is its 7th, for one process alone too."""
    store = store_of(DOCUMENTS)
    first = PackedStream(PackedRows(store, 3, END, 0), 4, 0, 2)
    for _ in range(3):
        next(first)
    state, expected = first.state(), next(first)
    again = PackedStream(PackedRows(store, 3, END, 0), 4, 0, 2)
    alone = PackedStream(PackedRows(store, 3, END, 0), 4)
    again.restore(state)
    alone.restore(state)
    assert np.array_equal(next(again)["targets"], expected["targets"])
    assert np.array_equal(next(alone)["targets"][:2], expected["targets"])


@pytest.mark.parametrize(("size", "rows"), [(63, 1), (64, 2), (65, 2), (66, 2), (127, 2)])
def test_short_files(store_of, size, rows):
    """Rows of 64: a file of n bytes has n + 1 targets, and every one of them is in some row."""
    packed = PackedRows(store_of([b"x" * size]), 64, END, 0)
    assert packed.rows_per_epoch == rows
    assert packed.batch(np.arange(rows))["loss_weights"].sum() == size + 1


@pytest.mark.parametrize("size", [0, 1, 62])
def test_a_corpus_shorter_than_a_row_is_refused_with_its_numbers(store_of, size):
    targets = size + 1 if size else 0
    with pytest.raises(InputError, match=f"{targets} targets .*row_length = 64"):
        PackedRows(store_of([b"x" * size]), 64, END, 0)


def test_a_batch_that_the_processes_cannot_share_is_refused():
    with pytest.raises(InputError, match="batch_size = 6 should be a multiple of the 4 processes"):
        process_share(6, 0, 4)
