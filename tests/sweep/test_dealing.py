"""Who trains what: members of a config stay together, and no worker waits while there is work."""

import pytest

from seqmodels.sweep.grid import Member, Recipe
from seqmodels.sweep.pool import Deck


def members(label, count):
    made = tuple(Member(label, 1e-3, seed) for seed in range(count))
    return Recipe(label, f"{label}.gin", (), "AdamW", "", made), made


def dealt(deck, order):
    """The labels that workers get, who come in an order."""
    found = []
    for worker in order:
        taken = deck.deal(worker)
        found.append(None if taken is None else "".join(member.config for member in taken[1]))
    return found


def test_each_worker_keeps_to_a_config_where_there_are_as_many():
    """Dealt out in turn, every worker would compile every config."""
    deck = Deck([members("a", 3), members("b", 3)], together=False)
    assert dealt(deck, "121212") == ["a", "b"] * 3
    assert dealt(deck, "12") == [None, None]


def test_a_worker_that_is_done_helps_where_most_is_left():
    """A config that takes long would leave the other cores idle."""
    deck = Deck([members("a", 1), members("b", 5), members("c", 2)], together=False)
    assert dealt(deck, "123") == ["b", "c", "b"], "four for two are as many as two for one, and one has begun"
    deck = Deck([members("a", 1), members("b", 4)], together=False)
    assert dealt(deck, "1212") == ["b", "b", "b", "b"]
    assert dealt(deck, "12") == ["a", None]


def test_as_one_program_a_config_is_dealt_whole():
    deck = Deck([members("a", 3), members("b", 2)], together=True)
    assert dealt(deck, "111") == ["aaa", "bb", None]


def test_a_config_whose_members_are_all_done_is_not_dealt():
    recipe, _ = members("a", 2)
    assert Deck([(recipe, [])], together=False).deal("1") is None


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_all_members_are_dealt_once(workers):
    deck = Deck([members("a", 3), members("b", 1), members("c", 4)], together=False)
    order = [str(number % workers) for number in range(8)]
    assert sorted(dealt(deck, order)) == ["a"] * 3 + ["b"] + ["c"] * 4


def test_who_joins_a_config_is_told_of_those_on_it():
    """Of two workers that begin at once, one compiles the step and the other the evaluation."""
    deck = Deck([members("a", 4)], together=False)
    assert [deck.deal(worker)[2] for worker in "123"] == [0, 1, 2]
