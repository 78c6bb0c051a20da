"""If these fail, runs on two machines or numpy versions would not see the same rows."""

import numpy as np
import pytest

from seqmodels.data.random_bits import below, check_seed, distinct, permutation, random_words, row_words
from seqmodels.errors import InputError

_MULTIPLIERS = 0xD2E7470EE14C6C93, 0xCA5A826395121157
_WEYL = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B


def philox(counter, key):
    """Philox 4x64-10 from its paper, in Python's own integers."""
    low = 2**64 - 1
    counter, key = list(counter), list(key)
    for _ in range(10):
        product = [m * counter[i] for m, i in zip(_MULTIPLIERS, (0, 2), strict=True)]
        counter = [
            (product[1] >> 64) ^ counter[1] ^ key[0],
            product[1] & low,
            (product[0] >> 64) ^ counter[3] ^ key[1],
            product[0] & low,
        ]
        key = [(k + w) & low for k, w in zip(key, _WEYL, strict=True)]
    return counter


def test_words_are_philox():
    """Block i, from 0, is the cipher of i + 1: numpy counts up before it draws."""
    expected = [word for i in range(3) for word in philox((6 + i, 0, 0, 0), (3, 2**63 + 1))]
    assert random_words((3, 2**63 + 1), 3, first_block=5).tolist() == expected


def test_a_row_has_the_same_words_in_any_batch():
    whole = row_words((1, 2), 0, 12, 13)
    parts = [row_words((1, 2), first, 4, 13) for first in (0, 4, 8)]
    assert np.array_equal(whole, np.concatenate(parts))
    assert len(np.unique(whole)) == whole.size, "two places share a word"


def test_permutations_are_permutations_and_differ():
    orders = [permutation(key, 50, stream) for key in ((0, 0), (0, 1), (1, 0), (1, 1)) for stream in (0, 1)]
    assert all(sorted(order) == list(range(50)) for order in orders)
    assert len({tuple(order) for order in orders}) == len(orders)


def test_below_reaches_both_ends_evenly():
    words = random_words((7, 0), 10_000).view(np.uint32)
    counts = np.bincount(below(words, 5), minlength=5)
    assert len(counts) == 5
    assert np.abs(counts - 16_000).max() < 5 * np.sqrt(16_000)
    assert below(np.array([0, 2**32 - 1], np.uint32), 2**31).tolist() == [0, 2**31 - 1]


def test_distinct_draws_every_ordered_choice_alike():
    """4 * 3 ordered pairs from 4, each with probability 1/12; a biased one would make some keys easier."""
    words = row_words((9, 0), 0, 24_000, 4)
    drawn = distinct(words[:, :2], words[:, 2:], 4)
    assert (drawn[:, 0] != drawn[:, 1]).all()
    counts = np.bincount(drawn[:, 0] * 4 + drawn[:, 1], minlength=16)
    assert np.count_nonzero(counts) == 12
    assert np.abs(counts[counts > 0] - 2000).max() < 5 * np.sqrt(2000)


def test_distinct_can_use_up_the_alphabet():
    words = row_words((9, 1), 0, 5, 16)
    assert (np.sort(distinct(words[:, :8], words[:, 8:], 8), axis=1) == np.arange(8)).all()


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_seed_out_of_range_is_refused(seed):
    with pytest.raises(InputError, match="seed"):
        check_seed(seed)
