"""If these fail, a depth of the book is never asked about, or a product is not that of the group."""

import itertools

import numpy as np
import pytest

from seqmodels.data.tasks.group_words import GroupWords
from seqmodels.data.tasks.groups import group_of
from seqmodels.data.tasks.parity import Parity
from seqmodels.data.tasks.phonebook import STRATA, Phonebook
from seqmodels.errors import InputError


@pytest.mark.parametrize("settings", [{}, {"entries": (5, 13), "digits": 4, "name_tokens": 3, "names": 5}])
def test_every_fifth_of_the_book_is_asked_about(settings):
    """Names are unique, a number is asked for digit by digit, and no entry is asked about twice."""
    task = Phonebook(**settings)
    name, digits = task.settings["name_tokens"], task.settings["digits"]
    width = name + digits
    batch, about = task.rows("train", 0, 100)
    for b in range(100):
        tokens = batch["tokens"][b, : batch["segment_ids"][b].sum()].tolist()
        entries = about["pairs"][b, 0]
        rows = [tokens[at : at + width] for at in range(0, width * entries, width)]
        book = {tuple(row[:name]): (row[name:], index) for index, row in enumerate(rows)}
        assert len(book) == entries and entries in task.settings["entries"]
        asked, at = [], width * entries
        for query in range(STRATA):
            number, index = book[tuple(tokens[at : at + name])]
            assert set(number) <= set(range(10))
            assert tokens[at + name : at + width - 1] == number[:-1]
            targets = batch["targets"][b, at + name - 1 : at + width - 1]
            assert targets.tolist() == number
            assert (
                about["depth"][b, query * digits : (query + 1) * digits] == index * STRATA // entries
            ).all()
            asked.append(index)
            at += width - 1
        assert at == len(tokens) and len(set(asked)) == STRATA
        assert sorted(about["depth"][b, ::digits]) == list(range(STRATA))


def test_the_first_query_asks_at_every_depth_and_at_the_one_that_is_set():
    about = Phonebook().rows("train", 0, 5000).metadata
    counts = np.bincount(about["depth"][:, 0])
    assert len(counts) == STRATA and np.abs(counts - 1000).max() < 5 * np.sqrt(1000)
    about = Phonebook().rows("test", 0, 100, depth=3).metadata
    assert (about["depth"][:, 0] == 3).all()
    assert set(about["depth"][:, -1]) == {0, 1, 2, 4}


@pytest.mark.parametrize(("name", "order"), [("Z2", 2), ("S3", 6), ("A5", 60), ("S5", 120), ("Z7", 7)])
def test_the_tables_are_those_of_groups(name, order):
    """Closed, with identity and inverses, associative, and commuting or not as its name says."""
    elements, product = group_of(name)
    assert len(set(elements)) == order and product.shape == (order, order)
    everything = np.arange(order)
    assert np.array_equal(product[0], everything) and np.array_equal(product[:, 0], everything)
    assert (np.sort(product, axis=0) == everything[:, None]).all()
    assert (np.sort(product, axis=1) == everything).all()
    some = np.random.default_rng(0).integers(order, size=(3, 500))
    left, right = product[product[some[0], some[1]], some[2]], product[some[0], product[some[1], some[2]]]
    assert np.array_equal(left, right)
    assert np.array_equal(product, product.T) == name.startswith("Z")
    n = len(elements[0])
    for a, b in itertools.islice(itertools.product(range(order), repeat=2), 0, 400, 7):
        composed = tuple(elements[a][elements[b][x]] for x in range(n))
        assert elements[product[a, b]] == composed


@pytest.mark.parametrize(
    "task", [Parity(), GroupWords(), GroupWords("A5"), GroupWords("S5")], ids=lambda t: t.settings["group"]
)
def test_every_position_asks_for_the_running_product(task):
    """By multiplying permutations themselves, one thing at a time."""
    elements, _ = group_of(task.settings["group"])
    number = {element: index for index, element in enumerate(elements)}
    batch, about = task.rows("train", 0, 40)
    lengths = set()
    for b in range(40):
        length = int(batch["segment_ids"][b].sum())
        lengths.add(length)
        running = elements[0]
        for t in range(length):
            factor = elements[batch["tokens"][b, t]]
            running = tuple(running[factor[x]] for x in range(len(factor)))
            assert batch["targets"][b, t] == task.order + number[running]
            assert about["distance"][b, t] == t + 1
        assert batch["loss_weights"][b].sum() == length
    assert lengths == {8, 16, 32}


def test_parity_is_the_sum_of_bits():
    batch = Parity(length=16).rows("train", 0, 50).batch
    assert np.array_equal(batch["targets"], 2 + np.cumsum(batch["tokens"], axis=1) % 2)


def test_the_last_position_alone_is_the_whole_word():
    whole, last = (GroupWords(last_only=only).rows("test", 0, 30) for only in (False, True))
    assert last.batch["scored"].shape == (30, 1)
    for b in range(30):
        end = last.batch["segment_ids"][b].sum() - 1
        assert last.metadata["answer"][b, 0] == whole.batch["targets"][b, end]
        assert last.metadata["distance"][b, 0] == end + 1


@pytest.mark.parametrize(
    ("task", "settings", "message"),
    [
        (GroupWords, {"group": "S6"}, "there is no group 'S6'"),
        (GroupWords, {"group": "Q8"}, "groups are Z2 to Z1000, S2 to S5 and A3 to A5"),
        *((GroupWords, {"group": group}, f"there is no group '{group}'") for group in ("Z1", "S1", "A2")),
        (GroupWords, {"length": 0}, "GroupWords.length"),
        (Parity, {"length": ()}, r"Parity.length = \(\) holds no number"),
        (Phonebook, {"entries": 4}, "should be at least 5"),
        (Phonebook, {"names": 2}, "entries = .* should be at most 4"),
        (Phonebook, {"depth": 5}, "depth = 5 should be a fifth"),
        (Phonebook, {"names": 5000, "name_tokens": 3}, "more names than can be drawn"),
    ],
)
def test_settings_that_make_no_row_are_refused(task, settings, message):
    with pytest.raises(InputError, match=message):
        task(**settings)
