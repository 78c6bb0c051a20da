"""Segment arithmetic against plain loops: a wrong border leaks one document into another
everywhere at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqmodels.ops import segments
from tests.ops.reference_loops import random_segment_ids

ROWS = {
    "one document": [[7, 7, 7, 7]],
    "padding alone": [[0, 0, 0, 0]],
    "left": [[0, 0, 3, 3]],
    "right": [[3, 3, 0, 0]],
    "inside a document": [[3, 0, 0, 3]],
    "between documents": [[3, 0, 0, 4]],
    "documents of one token": [[5, 2, 9, 1]],
    "rows that differ": [[1, 1, 2, 2], [0, 4, 0, 5], [0, 0, 0, 0]],
    "one token": [[2]],
}


def _walk(ids, first):
    """Per row, token by token: starts, ordinals, positions, then last id, first id and
    count of the last document."""
    marks = np.zeros(ids.shape, bool)
    ordinals, positions = (np.zeros(ids.shape, np.int32) for _ in range(2))
    last, opening, count = np.full(len(ids), -9), np.full(len(ids), -9), np.array(first)
    for row, names in enumerate(ids):
        current, ordinal = None, 0
        for t, name in enumerate(names):
            if name and current is not None and name != current:
                marks[row, t], ordinal, count[row] = True, ordinal + 1, 0
            if name:
                opening[row] = name if current is None else opening[row]
                current = last[row] = name
                positions[row, t] = count[row]
                count[row] += 1
            ordinals[row, t] = ordinal
    return marks, ordinals, positions, last, opening, count


@jax.jit
def _everything(ids, default, first):
    return {
        "starts": segments.starts(ids),
        "ordinals": segments.ordinals(ids),
        "positions": segments.positions(ids, first),
        "last id": segments.last_real_id(ids, default),
        "first id": segments.first_real_id(ids, default),
        "last count": segments.last_count(ids, first),
    }


@pytest.mark.parametrize("name", [*ROWS, "random"])
def test_every_function_agrees_with_a_walk_over_the_row(name):
    """Wrong here: a missed or invented border, a position that counts padding, a last
    document lost behind padding."""
    rng = np.random.default_rng(0)
    ids = random_segment_ids(rng, 16, 40) if name == "random" else np.array(ROWS[name], np.int32)
    first = np.arange(5, 5 + len(ids), dtype=np.int32)
    marks, ordinals, positions, last, opening, count = _walk(ids, first)
    got = _everything(ids, np.full(len(ids), -9, np.int32), first)
    np.testing.assert_array_equal(got["starts"], marks)
    np.testing.assert_array_equal(got["ordinals"], ordinals)
    np.testing.assert_array_equal(np.asarray(got["positions"])[ids != 0], positions[ids != 0])
    np.testing.assert_array_equal(got["last id"], last)
    np.testing.assert_array_equal(got["first id"], opening)
    np.testing.assert_array_equal(got["last count"], count)


def test_positions_start_at_zero_by_default():
    """Wrong here: a document that begins with the row would not begin at position 0."""
    ids = jnp.asarray([[0, 4, 4, 0, 4, 6, 6]], jnp.int32)
    assert segments.positions(ids)[0, jnp.asarray([1, 2, 4, 5, 6])].tolist() == [0, 1, 2, 0, 1]
