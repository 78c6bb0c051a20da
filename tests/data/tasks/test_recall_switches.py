"""If these fail, a switch of recall at a distance moves its distances, or asks for what cannot be known."""

import itertools

import numpy as np
import pytest

from seqmodels.data.tasks.recall_at_distance import RecallAtDistance
from seqmodels.errors import InputError

SIZES = {
    "pairs": (4, 9),
    "fillers": (0, 5),
    "queries_per_row": 7,
    "keys": 20,
    "values": 12,
    "filler_tokens": 4,
}
SWITCHES = {
    "rebind": (0.0, 0.4, 1.0),
    "query_first": (False, True),
    "read_twice": (False, True),
    "noisy": (0, 0.5),
}
ALL = [dict(zip(SWITCHES, chosen, strict=True)) for chosen in itertools.product(*SWITCHES.values())]


def read(task, tokens, fillers):
    """A row in plain Python: (what stands before the pairs, the pairs of each reading, queries)."""
    n = task.settings["queries_per_row"]
    lead = tokens[: n * task.settings["query_first"]]
    queries, rest = tokens[-n:], tokens[len(lead) : -n]
    between, rest = rest[len(rest) - fillers :], rest[: len(rest) - fillers]
    assert set(between) <= set(task.filler_ids)
    reads = 1 + task.settings["read_twice"]
    block = len(rest) // reads
    assert rest == rest[:block] * reads, "the second reading is another"
    return lead, [(rest[at], rest[at + 1]) for at in range(0, block, 2)], queries


@pytest.mark.parametrize("switches", ALL, ids=str)
def test_the_layout_and_the_distance_rule_hold_for_every_combination(switches):
    """d = 2 I + F + 1 + r, whatever is written before, in place of, or a second time."""
    task = RecallAtDistance(**SIZES, **switches)
    batch, about = task.rows("train", 2, 40, row_length=task.row_tokens())
    lengths = batch["segment_ids"].sum(axis=1)
    assert lengths.max() == task.row_tokens()
    for b in range(40):
        tokens = batch["tokens"][b, : lengths[b]].tolist()
        lead, block, queries = read(task, tokens, about["fillers"][b, 0])
        assert lead == (queries if switches["query_first"] else [])
        is_noise = [key in task.filler_ids for key, _ in block]
        assert is_noise == [value in task.filler_ids for _, value in block]
        real = [pair for pair, noise in zip(block, is_noise, strict=True) if not noise]
        assert all(key in task.key_ids and value in task.value_ids for key, value in real)
        last, first = dict(real), dict(reversed(real))
        assert len(last) == about["pairs"][b, 0]
        load = len(last) + sum(is_noise)
        assert load in SIZES["pairs"], "K changes with a switch"
        if switches["noisy"]:
            assert sum(is_noise) == int(0.5 * load + 0.5)
        older = len(real) - len(last)
        if switches["rebind"]:
            assert older == int(switches["rebind"] * len(last) + 0.5)
            twice = [key for key in last if [pair[0] for pair in real].count(key) == 2]
            assert len(twice) == older and all(first[key] != last[key] for key in twice)
            assert queries[0] in twice, "the first query does not test what the switch is for"
        assert sorted(v for v in about["values_in_row"][b] if v >= 0) == sorted(value for _, value in real)
        assert ("stale_answer" in about) == (switches["rebind"] > 0)
        for r, key in enumerate(queries):
            assert about["answer"][b, r] == last[key]
            place = max(at for at, pair in enumerate(block) if pair[0] == key)
            behind = len(block) - 1 - place
            assert about["interference"][b, r] == behind
            assert about["distance"][b, r] == 2 * behind + about["fillers"][b, r] + 1 + r
            if switches["rebind"]:
                assert about["stale_answer"][b, r] == (first[key] if first[key] != last[key] else -1)


def test_switches_that_are_off_change_nothing():
    """Neither a row nor the fingerprint of what earlier runs were trained on."""
    plain, off = RecallAtDistance(), RecallAtDistance(rebind=0.0, query_first=False, noisy=0.0)
    assert plain.fingerprint == off.fingerprint
    assert "rebind" not in plain.describe()
    assert plain.fingerprint != RecallAtDistance(rebind=True).fingerprint
    assert RecallAtDistance(rebind=True).fingerprint == RecallAtDistance(rebind=1.0).fingerprint


def test_the_first_query_asks_at_the_interference_that_is_set_under_every_switch():
    """Otherwise a curve by interference would be one by the position of noise."""
    task = RecallAtDistance(pairs=8, rebind=0.5, noisy=0.5, read_twice=True)
    about = task.rows("test", 0, 200, interference=3, fillers=2).metadata
    assert (about["distance"][:, 0] == 2 * 3 + 2 + 1).all()
    assert (about["stale_answer"][:, 0] >= 0).all()
    assert {point.pairs for point in task.sweeps(96)[0].points} == {4}


def test_noise_and_older_pairs_fall_anywhere():
    """A place that noise or rebinding never reaches would tell a model which pairs to keep."""
    about = (
        RecallAtDistance(pairs=4, rebind=0.5, noisy=0.5, queries_per_row=40).rows("test", 0, 2000).metadata
    )
    for known in (about["stale_answer"] >= 0, about["interference"] >= 0):
        counts = np.bincount(about["interference"][:, 1:][known[:, 1:]], minlength=4)
        assert (np.abs(counts / counts.sum() - 0.25) < 0.03).all()


def test_settings_may_be_switched_on_for_an_evaluation():
    task = RecallAtDistance()
    rows = task.rows("test", 0, 30, rebind=True, read_twice=True, fillers=0)
    assert (rows.metadata["stale_answer"] >= 0).all()
    assert rows.batch["tokens"].shape[1] == 2 * 2 * 8 + 20


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rebind": 1.5}, "rebind = 1.5 should be a fraction from 0 to 1"),
        ({"noisy": 1.0}, "noisy = 1.0 should be a fraction from 0 to below 1"),
        ({"noisy": 0.5, "filler_tokens": 0, "fillers": 0}, "noise comes from the fillers"),
    ],
)
def test_switches_that_make_no_row_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        RecallAtDistance(**settings)
