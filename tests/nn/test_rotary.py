"""Rotary positions: what turns, how fast, and how the scalings stretch it."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from seqmodels.nn.rotary import Rotary


def vectors(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def test_products_depend_on_the_distance_alone():
    """The whole point: q at 7 and k at 4 meet as q at 1003 and k at 1000 do."""
    q, k = vectors(1, 1, 2, 16), vectors(1, 1, 2, 16, seed=1)
    turn = Rotary()

    def product(i, j):
        return (turn(q, jnp.asarray([[i]])) * turn(k, jnp.asarray([[j]]))).sum(-1)

    np.testing.assert_allclose(product(7, 4), product(1003, 1000), atol=1e-4)
    assert np.abs(product(7, 4) - product(7, 5)).max() > 1e-2


def test_position_zero_leaves_vectors_and_turning_keeps_lengths():
    x = vectors(2, 5, 3, 8)
    turned = Rotary()(x, jnp.tile(jnp.arange(5, dtype=jnp.int32)[None], (2, 1)))
    np.testing.assert_array_equal(turned[:, 0], x[:, 0])
    np.testing.assert_allclose((turned**2).sum(-1), (x**2).sum(-1), rtol=1e-5)


def test_plain_and_linear_frequencies():
    """theta^(−2i/K); "linear" divides all of them."""
    np.testing.assert_allclose(Rotary(theta=100.0).frequencies(4), [1.0, 0.1])
    np.testing.assert_allclose(
        Rotary(theta=100.0, scaling="linear", factor=4.0).frequencies(4), [0.25, 0.025]
    )


def test_llama3_keeps_fast_and_divides_slow_frequencies():
    """Kept above 4 turns within the original length, divided below 1, on a line in the turns between."""
    rotary = Rotary(theta=500_000.0, scaling="llama3", factor=8.0, original_length=8192)
    plain, scaled = Rotary(theta=500_000.0).frequencies(128), rotary.frequencies(128)
    turns = 8192 * plain / (2 * math.pi)
    np.testing.assert_allclose(scaled[turns > 4], plain[turns > 4])
    np.testing.assert_allclose(scaled[turns < 1], plain[turns < 1] / 8)
    between = (turns > 1) & (turns < 4)
    assert between.any()
    share = (turns[between] - 1) / 3
    np.testing.assert_allclose(scaled[between], plain[between] * (share + (1 - share) / 8))


def test_yarn_keeps_fast_and_divides_slow_frequencies():
    """Between 32 and 1 turns the ramp is linear in the channel, from the floor to the ceiling of its ends."""
    rotary = Rotary(scaling="yarn", factor=16.0, original_length=4096)
    plain, scaled = Rotary().frequencies(128), rotary.frequencies(128)
    # Channels of 32 turns and of 1 turn: 128 ln(4096 / (2 pi turns)) / (2 ln 10000) = 20.9 and 45.03.
    np.testing.assert_allclose(scaled[:21], plain[:21])
    np.testing.assert_allclose(scaled[46:], plain[46:] / 16)
    ramp = (33 - 20) / (46 - 20)
    np.testing.assert_allclose(scaled[33], plain[33] * (1 - ramp + ramp / 16))


def test_yarn_sharpens_the_logits():
    """q·k grows by (0.1 ln s + 1)² for a stretch of s (equation 22 of the paper, through q and k)."""
    x = vectors(1, 1, 1, 8)
    turned = Rotary(scaling="yarn", factor=16.0, original_length=64)(x, jnp.zeros((1, 1), jnp.int32))
    assert float((turned**2).sum() / (x**2).sum()) == pytest.approx((0.1 * math.log(16) + 1) ** 2, rel=1e-5)
    assert Rotary(scaling="linear", factor=16.0).magnitude == 1.0


def test_the_dtype_stays_and_angles_are_float32():
    """Angles in bfloat16 would merge neighbouring positions from 256 on."""
    x = vectors(1, 1, 1, 8).astype(jnp.bfloat16)
    near, far = (Rotary()(x, jnp.asarray([[place]])) for place in (1000, 1001))
    assert near.dtype == jnp.bfloat16
    assert (near != far).any()


def test_far_positions_turn_as_exactly_as_near_ones():
    """A float32 angle of 65,535 radians is off by 4e-3: relative positions would blur as contexts grow."""
    x = vectors(1, 3, 1, 64)
    places = np.array([[5, 4097, 65535]])
    turned = np.asarray(Rotary()(x, jnp.asarray(places, jnp.int32)), np.float64)
    first, second = np.split(np.asarray(x, np.float64), 2, axis=-1)
    angles = places[..., None, None] * Rotary().frequencies(64)
    wanted = (first + 1j * second) * np.exp(1j * angles)
    wanted = np.concatenate([wanted.real, wanted.imag], axis=-1)
    for place, bound in enumerate((1e-6, 1e-5, 2e-4)):
        np.testing.assert_allclose(turned[:, place], wanted[:, place], atol=bound)
