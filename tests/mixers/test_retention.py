"""Retention's own rates, positions and settings."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from seqmodels.errors import InputError
from seqmodels.mixers import Retention
from seqmodels.mixers.retention import log_decays
from tests.mixers.subjects import Subject, agree, normal, program


def test_each_head_remembers_twice_as_long_as_the_one_before():
    """γ = 1 − 2^(−5−h): the head 0 halves in 22 tokens, head 7 in 2,839; as float32 γ itself, half a percent
    of head 17's rate would be lost.
    """
    np.testing.assert_allclose(1 - np.exp(log_decays(20)), 2.0 ** -(5 + np.arange(20)), rtol=1e-9)


def test_values_are_twice_as_wide_as_keys():
    """64 key channels a head, or the width where that is smaller, as published for heads of any width."""
    for width, heads, key_dim in ((32, 1, 32), (96, 1, 64), (160, 2, 64), (256, 4, 64)):
        mixer = nnx.eval_shape(lambda width=width: Retention(width, rngs=nnx.Rngs(0)))
        memory = jax.eval_shape(lambda mixer=mixer: mixer.init_state(3, 100)).memory
        assert memory.shape == (3, heads, key_dim, 2 * key_dim)


def test_a_row_reads_the_same_far_from_its_start():
    """Rotations depend on the distance alone: an empty memory at position 5,000 reads as at 0."""
    subject = Subject("Retention", "auto")
    state = Retention(32, heads=2, rngs=nnx.Rngs(0)).init_state(2, 24)
    x = normal(2, 24, 32)
    wanted, after = program(subject)(x, None, state)
    far, far_after = program(subject)(x, None, state._replace(position=jnp.full(2, 5000, jnp.int32)))
    agree(far, wanted)
    np.testing.assert_array_equal(far_after.position - after.position, 5000)
    assert np.abs(far_after.memory - after.memory).max() > 0.1  # or nothing turned


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 3}, "Retention.heads is 3, which does not divide the width, 32"),
        ({"head_dim": 5}, "Retention.head_dim is 5; rotary positions turn pairs"),
        ({"value_dim": 0}, "Retention.value_dim is 0; it must be at least 1"),
        ({"method": "blockwise"}, "Retention.method is 'blockwise'; it must be one of auto, sequential"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(InputError, match=re.escape(message)):
        Retention(32, rngs=nnx.Rngs(0), **settings)
