"""If these fail, a recall figure stands at the wrong distance, or its task is solved without memory."""

import numpy as np
import pytest

from seqmodels.data.tasks.recall_at_distance import RecallAtDistance
from seqmodels.errors import InputError

MIXED = {
    "pairs": (2, 5),
    "fillers": (0, 3, 8),
    "queries_per_row": 6,
    "keys": 9,
    "values": 4,
    "filler_tokens": 3,
}


def read_row(task, tokens, segment_ids, pairs, fillers):
    """A row taken apart by its layout: ({key: (value, place of the value)}, fillers, queries)."""
    length = 2 * pairs + fillers + task.settings["queries_per_row"]
    assert segment_ids.tolist() == [1] * length + [0] * (len(tokens) - length)
    tokens = tokens[:length].tolist()
    written = {tokens[2 * j]: (tokens[2 * j + 1], 2 * j + 1) for j in range(pairs)}
    return written, tokens[2 * pairs : 2 * pairs + fillers], tokens[2 * pairs + fillers :]


@pytest.mark.parametrize(
    "settings", [{}, MIXED, {"interference": (0, 1), **MIXED}, {"pairs": 1, "fillers": 0}]
)
def test_rows_say_what_the_metadata_says(settings):
    """Layout 2 K + F + n, distinct keys, disjoint alphabets, answers, and d = 2 I + F + 1 + r, row by row."""
    task = RecallAtDistance(**settings)
    rows = task.rows("train", 5, 200, row_length=64)
    batch, about = rows
    assert set(batch) == {"tokens", "targets", "segment_ids", "loss_weights", "scored"}
    for b in range(200):
        pairs, fillers = about["pairs"][b, 0], about["fillers"][b, 0]
        row = batch["tokens"][b], batch["segment_ids"][b]
        written, between, queries = read_row(task, *row, pairs, fillers)
        assert len(written) == pairs, "a key is written twice"
        assert set(written) <= set(task.key_ids) and set(between) <= set(task.filler_ids)
        in_row = [value for value, _ in written.values()]
        assert set(in_row) <= set(task.value_ids)
        assert [value for value in about["values_in_row"][b] if value >= 0] == in_row
        for r, key in enumerate(queries):
            value, place = written[key]
            at = batch["scored"][b, r]
            assert at == 2 * pairs + fillers + r
            assert batch["targets"][b, at] == about["answer"][b, r] == value
            behind = about["interference"][b, r]
            assert place == 2 * (pairs - 1 - behind) + 1
            assert about["distance"][b, r] == at - place == 2 * behind + fillers + 1 + r
            assert about["query_index"][b, r] == r and about["row"][b, r] == 5 + b
        weight = np.zeros(64)
        weight[batch["scored"][b]] = 1
        assert np.array_equal(batch["loss_weights"][b], weight), "something else than the queries has weight"
        assert not batch["targets"][b][weight == 0].any()


def test_settings_are_drawn_evenly():
    """If not, the curves by delay and by interference would rest on few rows of training."""
    about = RecallAtDistance(**MIXED).rows("train", 0, 6000).metadata
    for name, choices in (("pairs", (2, 5)), ("fillers", (0, 3, 8))):
        values, counts = np.unique(about[name][:, 0], return_counts=True)
        assert values.tolist() == list(choices)
        assert np.abs(counts - 6000 / len(choices)).max() < 5 * np.sqrt(6000)
    about = RecallAtDistance().rows("train", 0, 6000).metadata
    for query in (0, 7):
        counts = np.bincount(about["interference"][:, query])
        assert len(counts) == 4 and np.abs(counts - 1500).max() < 5 * np.sqrt(1500)


def test_the_first_query_asks_at_the_interference_that_is_set():
    about = RecallAtDistance().rows("test", 0, 50, interference=2, fillers=7, pairs=6).metadata
    assert (about["interference"][:, 0] == 2).all()
    assert (about["distance"][:, 0] == 2 * 2 + 7 + 1).all()
    assert set(about["interference"][:, 1:].ravel()) == set(range(6))


def test_values_keys_and_fillers_are_uniform():
    batch = RecallAtDistance().rows("test", 0, 4000, fillers=8).batch
    task = RecallAtDistance()
    alphabets = {task.key_ids: slice(0, 8, 2), task.value_ids: slice(1, 8, 2), task.filler_ids: slice(8, 16)}
    for ids, columns in alphabets.items():
        drawn = batch["tokens"][:, columns].ravel()
        counts = np.bincount(drawn - ids.start, minlength=len(ids))
        assert len(counts) == len(ids)
        mean = drawn.size / len(ids)
        assert np.abs(counts - mean).max() < 5 * np.sqrt(mean)


def test_bytes_depend_on_nothing_but_settings_seed_split_and_row():
    task = RecallAtDistance(**MIXED)
    whole = task.rows("validation", 0, 24, seed=3)
    for size in (1, 5, 24):
        firsts = range(0, 24, size)
        parts = [task.rows("validation", first, min(size, 24 - first), seed=3) for first in firsts]
        for name, array in whole.batch.items():
            assert np.array_equal(array, np.concatenate([part.batch[name] for part in parts]))
        for name, array in whole.metadata.items():
            assert np.array_equal(array, np.concatenate([part.metadata[name] for part in parts]))


def test_other_fillers_leave_pairs_and_queries_as_they_are():
    """So that two delays are compared on the same pairs."""
    task = RecallAtDistance()
    near, far = (task.rows("test", 0, 20, fillers=fillers).batch for fillers in (0, 500))
    assert np.array_equal(near["tokens"][:, :8], far["tokens"][:, :8])
    assert np.array_equal(near["tokens"][:, 8:28], far["tokens"][:, 508:528])


def test_splits_and_seeds_share_no_row():
    task = RecallAtDistance()
    seen = set()
    for split in ("train", "validation", "test"):
        for seed in (0, 1):
            tokens = task.rows(split, 0, 300, seed=seed, fillers=4).batch["tokens"]
            seen |= {row.tobytes() for row in tokens}
    assert len(seen) == 6 * 300


def test_the_hash_tells_rows_apart():
    task = RecallAtDistance()
    first = task.rows_hash("test", 0, 10)
    assert first == RecallAtDistance().rows_hash("test", 0, 10)
    others = [
        task.rows_hash("test", 1, 10),
        task.rows_hash("validation", 0, 10),
        task.rows_hash("test", 0, 10, interference=1),
        RecallAtDistance(values=127).rows_hash("test", 0, 10),
    ]
    assert first not in others and len(set(others)) == 4


def test_the_bytes_are_those_of_every_machine():
    """A change of these bytes is a change of the task: raise FORMAT in its file, then take the new hash."""
    assert RecallAtDistance().rows_hash("test", 0, 1000, seed=7) == "104a2158ba891fa4d62eae78de729ade"


def test_the_stream_is_the_rows_and_resumes_for_any_number_of_processes():
    task = RecallAtDistance()
    stream, expected = task.stream(6, 64, seed=2), task.rows("train", 0, 18, seed=2, row_length=64).batch
    batches = [next(stream) for _ in range(3)]
    assert stream.state() == {"row": 18}
    for name, array in expected.items():
        assert np.array_equal(array, np.concatenate([batch[name] for batch in batches]))
    for process in range(3):
        part = task.stream(6, 64, 2, process, 3)
        part.restore({"row": 6})
        assert np.array_equal(next(part)["tokens"], batches[1]["tokens"][2 * process : 2 * process + 2])


def test_the_defaults_are_those_of_the_documented_task():
    task = RecallAtDistance()
    assert (task.settings["pairs"], task.vocab_size, task.settings["queries_per_row"]) == ((4,), 256, 20)
    assert task.row_tokens() == 2 * 4 + 31 + 20 <= 64
    assert task.fingerprint != RecallAtDistance(pairs=5).fingerprint


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pairs": 113}, r"pairs = \(113,\) should lie between 1 and keys = 112"),
        ({"pairs": (4, 0)}, r"pairs = \(4, 0\)"),
        ({"interference": 4}, r"interference = \(4,\) should lie between 0 and 3"),
        ({"pairs": (2, 8), "interference": (0, 2)}, "between 0 and 1"),
        ({"fillers": 3, "filler_tokens": 0}, "alphabet"),
        ({"fillers": -1}, "at least 0"),
        ({"queries_per_row": 0}, "queries_per_row = 0 should be at least 1"),
        ({"values": 1}, "values = 1 should be at least 2"),
        ({"pairs": ()}, r"pairs = \(\) holds no number"),
    ],
)
def test_settings_that_make_no_row_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        RecallAtDistance(**settings)


def test_a_row_longer_than_the_row_length_is_refused():
    with pytest.raises(InputError, match=r"up to 59 tokens .*row_length is\s58"):
        RecallAtDistance().stream(4, 58, 0)
    with pytest.raises(InputError, match="up to 528 tokens"):
        RecallAtDistance().rows("test", 0, 1, fillers=500, row_length=64)
