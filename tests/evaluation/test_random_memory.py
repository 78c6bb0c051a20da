"""Memories with random keys, simulated from inner products, are those that one writes out as matrices."""

import numpy as np
import pytest

from seqmodels.evaluation import random_memory

LOADS = (4, 8, 16, 32, 64)
ACCURACIES = {"additive": (0.907, 0.813, 0.639, 0.428, 0.252), "delta": (0.912, 0.799, 0.575, 0.325, 0.172)}
SIZES = {"values": 64, "key_width": 16, "value_width": 16}


@pytest.mark.parametrize("load", range(len(LOADS)))
def test_known_accuracies(load):
    """The reference line of a picture must be the memory that it is said to be (another's simulation)."""
    rows = 800
    for rule, reading in random_memory.simulate(LOADS[load], **SIZES, rows=rows, seed=1).items():
        of_row = reading.right.mean(axis=1)
        # 4 standard errors over rows, and half a unit of the last digit of the reference.
        error = 4 * of_row.std(ddof=1) / rows**0.5 + 5e-4
        assert abs(of_row.mean() - ACCURACIES[rule][load]) < error, rule


def test_repeats_exactly():
    """A reference line that moved between two evaluations would look like a result."""
    one, two = (random_memory.simulate(8, **SIZES, rows=20) for _ in range(2))
    for rule in random_memory.RULES:
        np.testing.assert_array_equal(one[rule].bits, two[rule].bits)


def test_bits():
    """log2 V of one pair in a wide memory, hardly any of far too many in a narrow one, and never more."""
    wide = random_memory.simulate(1, values=64, key_width=64, value_width=256, rows=50)
    narrow = random_memory.simulate(128, values=64, key_width=4, value_width=4, rows=20)
    for rule in random_memory.RULES:
        np.testing.assert_allclose(wide[rule].bits, 6.0, atol=0.05)
        assert -0.1 < narrow[rule].bits.mean() < 0.5
        assert narrow[rule].bits.max() <= 6.0


def test_the_delta_rule_forgets_the_old_and_keeps_the_newest():
    """Its last pair is read without noise; additive memories treat all ages alike."""
    reading = random_memory.simulate(64, values=64, key_width=16, value_width=64, rows=100)
    newest, oldest = reading["delta"].right[:, -1].mean(), reading["delta"].right[:, 0].mean()
    assert newest == 1.0 > oldest + 0.3
    additive = reading["additive"].right.mean(axis=0)
    assert abs(additive[:8].mean() - additive[-8:].mean()) < 0.15


def test_critical_load():
    """d_k d_v / (2 ln V)."""
    assert random_memory.critical_load(16, 32, 64) == pytest.approx(16 * 32 / (2 * np.log(64)))
