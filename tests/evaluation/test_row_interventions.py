"""Interventions on rows change what they say, and nothing else."""

import numpy as np

from seqmodels.evaluation.row_interventions import (
    key_swap,
    other_values,
    pair_deletion,
    truncated,
    value_swap,
)
from tests.evaluation.intervention_oracles import TASK, rows


def test_rows_are_changed_where_they_should_and_nowhere_else():
    """An intervention that also moves another token tests two things at once."""
    before = rows()
    row, key = np.arange(50), 2 * before.target
    swap, deletion, exchange, other = (
        change(before) for change in (value_swap, pair_deletion, key_swap, other_values)
    )
    assert ((swap.tokens != before.tokens).sum(axis=1) == 1).all()
    np.testing.assert_array_equal(swap.tokens[row, key + 1], swap.answer)
    assert not (swap.answer[:, None] == before.values).any()
    assert np.isin(swap.answer, TASK.value_ids).all()

    assert ((deletion.tokens != before.tokens).sum(axis=1) == 2).all()
    assert not (deletion.tokens[row, key][:, None] == before.keys).any()
    assert not (deletion.tokens[row, key + 1][:, None] == before.values).any()
    assert np.isin(deletion.tokens[row, key], TASK.key_ids).all()

    assert ((exchange.tokens != before.tokens).sum(axis=1) == 2).all()
    assert (exchange.answer != before.answer).all()
    assert exchange.counted.all()
    np.testing.assert_array_equal(np.sort(exchange.tokens, axis=1), np.sort(before.tokens, axis=1))

    np.testing.assert_array_equal(other.tokens[:, 0:8:2], before.keys)
    np.testing.assert_array_equal(other.tokens[:, -1], before.tokens[:, -1])
    assert (other.tokens[:, 1:8:2] != before.values).all()
    assert np.isin(other.tokens[:, 1:8:2], TASK.value_ids).all()
    assert np.isin(other.tokens[:, 8:-1], TASK.filler_ids).all()


def test_rows_whose_pairs_all_agree_are_not_counted():
    """Keys that change places between equal values leave the answer as it was."""
    equal = rows()
    tokens = equal.tokens.copy()
    tokens[:, 1:8:2] = TASK.value_ids.start
    assert not key_swap(equal._replace(tokens=tokens)).counted.any()


def test_truncated_rows_end_as_before():
    """The query must stay where it is, behind as many tokens as were asked for."""
    before = rows(3)
    tokens, segment_ids = truncated(before, np.array([0, 2, 11]))
    np.testing.assert_array_equal(segment_ids.sum(axis=1), [1, 3, 12])
    np.testing.assert_array_equal(tokens[:, -1], before.tokens[:, -1])
    np.testing.assert_array_equal(tokens[2], before.tokens[2])
    np.testing.assert_array_equal(tokens[1], np.concatenate([np.zeros(9), before.tokens[1, 9:]]))
