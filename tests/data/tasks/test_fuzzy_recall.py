"""If these fail, an answer of several tokens is asked for at the wrong place, or two keys are one."""

import numpy as np
import pytest

from seqmodels.data.tasks.fuzzy_recall import FuzzyRecall
from seqmodels.errors import InputError

SMALL = {"pairs": (2, 4), "fillers": (0, 3), "queries_per_row": 5, "keys": 4, "values": 3, "filler_tokens": 2}


def runs(task, tokens):
    """The tokens in runs of one alphabet: [(name, ids)]."""
    names = {"key": task.key_ids, "value": task.value_ids, "filler": task.filler_ids, "mark": [task.mark_id]}
    found = []
    for token in tokens:
        name = next(name for name, ids in names.items() if token in ids)
        if found and found[-1][0] == name:
            found[-1][1].append(token)
        else:
            found.append((name, [token]))
    return found


@pytest.mark.parametrize("settings", [{}, SMALL, {**SMALL, "key_lengths": (2, 2, 3), "value_lengths": 3}])
def test_rows_are_read_back_by_their_alphabets_alone(settings):
    """Borders, answers, marks and the distance of every token of an answer, without the generator's help."""
    task = FuzzyRecall(**settings)
    batch, about = task.rows("train", 0, 150, row_length=task.row_tokens())
    for b in range(150):
        tokens = batch["tokens"][b, : batch["segment_ids"][b].sum()].tolist()
        parts = runs(task, tokens)
        written, at, r, asks = {}, 0, 0, 0
        while parts:
            name, ids = parts.pop(0)
            at += len(ids)
            if name == "filler":
                assert len(ids) == about["fillers"][b, 0]
                continue
            assert name == "key"
            kind, more = parts.pop(0)
            if kind == "value":
                assert tuple(ids) not in written, "a key is written twice"
                assert (
                    len(ids) in task.settings["key_lengths"] and len(more) in task.settings["value_lengths"]
                )
                written[tuple(ids)] = (more, at)
            else:
                value, place = written[tuple(ids)]
                assert kind == "mark" and len(more) == len(value)
                for part, token in enumerate(value):
                    assert batch["scored"][b].reshape(-1)[about["query_index"][b] == r].tolist() == [
                        at - 1 + part
                    ]
                    this = about["query_index"][b] == r
                    assert about["answer"][b][this] == token
                    assert about["distance"][b][this] == at - 1 - place
                    assert (about["asked"][b][this], about["answer_token"][b][this]) == (asks, part)
                    r += 1
                asks += 1
            at += len(more)
        assert asks == task.settings["queries_per_row"] and r == (about["query_index"][b] >= 0).sum()
        assert len(written) == about["pairs"][b, 0]
        values = [token for value, _ in written.values() for token in value]
        assert [token for token in about["values_in_row"][b] if token >= 0] == values


def test_lengths_are_drawn_evenly():
    about = FuzzyRecall().rows("train", 0, 4000).metadata
    for name in ("key_length", "value_length"):
        counts = np.bincount(about[name][:, 0])[1:]
        assert len(counts) == 3 and np.abs(counts - 4000 / 3).max() < 5 * np.sqrt(4000 / 3)


def test_one_token_each_is_the_distance_of_plain_recall():
    """2 I + F + 1 for the first query; a later one has two tokens more for each query before it."""
    task = FuzzyRecall(key_lengths=1, value_lengths=1)
    about = task.rows("test", 0, 40, interference=2, fillers=7).metadata
    assert (about["distance"][:, 0] == 2 * 2 + 7 + 1).all()
    expected = 2 * about["interference"] + 7 + 1 + 2 * about["asked"]
    assert np.array_equal(about["distance"], expected)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"values": 1}, "values = 1 should be at least 2"),
        ({"pairs": 33}, r"pairs = \(33,\) should be at most keys \*\* 1 = 32"),
        ({"key_lengths": ()}, r"key_lengths = \(\) holds no number"),
        ({"value_lengths": 0}, "value_lengths"),
        ({"keys": 3000}, "more keys than can be drawn"),
        ({"interference": 4}, r"interference = \(4,\) should lie between 0 and 3"),
        ({"filler_tokens": 0}, "have no alphabet"),
    ],
)
def test_settings_that_make_no_row_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        FuzzyRecall(**settings)
