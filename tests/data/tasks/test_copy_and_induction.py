"""If these fail, a copy skips an item, or a cue stands where its answer is another's."""

import numpy as np
import pytest

from seqmodels.data.tasks.copy import Copy
from seqmodels.data.tasks.induction import Induction
from seqmodels.data.tasks.ngram_lookup import NgramLookup
from seqmodels.data.tasks.selective_copy import SelectiveCopy
from seqmodels.errors import InputError


def rows_of(task, count):
    """(tokens, {position: target}) of each row, without padding."""
    batch = task.rows("train", 0, count).batch
    for b in range(count):
        tokens = batch["tokens"][b, : batch["segment_ids"][b].sum()].tolist()
        asked = np.flatnonzero(batch["loss_weights"][b]).tolist()
        yield tokens, {at: int(batch["targets"][b, at]) for at in asked}


def test_a_copy_says_every_item_once_more():
    task, seen = Copy(), set()
    for tokens, asked in rows_of(task, 60):
        middle = tokens.index(task.copy_id)
        items = tokens[:middle]
        assert tokens == [*items, task.copy_id, *items[:-1]]
        assert asked == {middle + i: item for i, item in enumerate(items)}
        seen.add(middle)
    assert seen == {8, 16, 24, 32}


def test_selective_copy_picks_items_from_anywhere():
    """The first and last place of the body included, and places side by side."""
    task = SelectiveCopy(length=10, items=4)
    places = []
    for tokens, asked in rows_of(task, 2000):
        body, copies = tokens[:10], tokens[10:]
        assert copies == [task.copy_id] * 4
        items = [token for token in body if token in task.value_ids]
        assert set(body) - set(items) <= set(task.filler_ids)
        assert asked == {10 + i: item for i, item in enumerate(items)}
        places.append([at for at, token in enumerate(body) if token in task.value_ids])
    counts = np.bincount(np.concatenate(places), minlength=10)
    assert np.abs(counts - 800).max() < 5 * np.sqrt(800)


@pytest.mark.parametrize("settings", [{}, {"cues": 1, "payload": 3}, {"cues": 4, "payload": 2, "length": 30}])
def test_special_cues_are_followed_by_their_payload(settings):
    task = Induction(**settings)
    cues, payload = task.settings["cues"], task.settings["payload"]
    for tokens, asked in rows_of(task, 100):
        body = tokens[: len(tokens) - cues * payload]
        again = tokens[len(body) :]
        assert sorted(token for token in body if token in task.key_ids) == list(task.key_ids)
        assert sorted(again[::payload]) == list(task.key_ids)
        expected = {}
        for question, cue in enumerate(again[::payload]):
            value = body[body.index(cue) + 1 :][:payload]
            assert len(value) == payload and set(value) <= set(task.value_ids)
            start = len(body) + question * payload
            assert again[question * payload :][:payload] == [cue, *value[:-1]]
            expected |= {start + i: token for i, token in enumerate(value)}
        assert asked == expected


def test_the_general_form_repeats_a_bigram_that_is_unique():
    """A cue that stood twice would have two answers."""
    task = Induction(cues=3, special=False, tokens=12, length=24)
    every = set()
    for tokens, asked in rows_of(task, 300):
        body, again = tokens[:21], tokens[21:]
        assert len(set(again)) == 3 and all(body.count(cue) == 1 for cue in again)
        assert asked == {21 + i: body[body.index(cue) + 1] for i, cue in enumerate(again)}
        every |= set(again)
    assert every == set(range(12)), "some token is never a cue"


@pytest.mark.parametrize("special", [True, False])
def test_the_first_cue_stands_anywhere(special):
    """Uniform over the places that leave room for the payload."""
    about = Induction(length=20, cues=1, payload=2, special=special).rows("train", 0, 8000).metadata
    counts = np.bincount(
        about["distance"][:, 0]
    )  # from the payload's first token at 1..16 to the query at 18
    assert np.flatnonzero(counts).tolist() == list(range(2, 18))
    assert np.abs(counts[2:] - 500).max() < 5 * np.sqrt(500)


@pytest.mark.parametrize(
    "settings", [{}, {"length": 20, "n": 3, "letters": 5, "queries_per_row": 8}, {"n": 1, "letters": 200}]
)
def test_the_ngram_occurs_exactly_once_before(settings):
    task = NgramLookup(**settings)
    n, length = task.settings["n"], task.settings["length"]
    for tokens, asked in rows_of(task, 300):
        assert set(tokens[:length]) <= set(task.value_ids)
        assert len(asked) == task.settings["queries_per_row"]
        for at, answer in asked.items():
            query = tokens[at - n + 1 : at + 1]
            assert tokens[at - n] == task.mark_id
            found = [i for i in range(at - n) if tokens[i : i + n] == query]
            assert len(found) == 1 and found[0] + n < length, "the n-gram does not occur exactly once"
            assert tokens[found[0] + n] == answer


@pytest.mark.parametrize(
    ("task", "settings", "message"),
    [
        (Copy, {"items": 0}, "items"),
        (SelectiveCopy, {"items": 49}, "items = 49 should be at most length = 48"),
        (Induction, {"length": 23}, "length = 23 should be at least 24"),
        (Induction, {"special": False, "tokens": 8}, "cues = 8 should be fewer than tokens = 8"),
        (Induction, {"tokens": 1}, "tokens = 1 should be at least 2"),
        (Copy, {"values": 1}, "values = 1 should be at least 2"),
        (SelectiveCopy, {"values": 1}, "values = 1 should be at least 2"),
        (NgramLookup, {"queries_per_row": 20}, "queries_per_row = 20 should be at most half of the 38"),
        (NgramLookup, {"letters": 12}, "make 144 n-grams, and length = 40 needs 160"),
        (NgramLookup, {"n": 20, "queries_per_row": 2}, "too long to be counted"),
    ],
)
def test_settings_that_make_no_row_are_refused(task, settings, message):
    with pytest.raises(InputError, match=message):
        task(**settings)
