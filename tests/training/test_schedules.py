"""The learning rate by the count of updates."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqmodels.training.schedules import schedule


def rates(name, steps, warmup, *, final=0.1, decay=0.2, peak=1e-2):
    rate = schedule(
        name,
        learning_rate=peak,
        steps=steps,
        warmup_steps=warmup,
        final_fraction=final,
        decay_fraction=decay,
    )
    return np.asarray(jax.vmap(rate)(jnp.arange(steps, dtype=jnp.int32)), np.float64)


def expected(name, count, steps, warmup, final, decay, peak):
    """The documented formula, in float64 and one update at a time."""
    if count < warmup:
        return peak * (count + 1) / warmup
    if name == "cosine":
        progress = (count - warmup) / (steps - warmup)
        return peak * (final + (1 - final) * (1 + math.cos(math.pi * progress)) / 2)
    decay_steps = min(round(decay * steps), steps - warmup)
    if name == "wsd" and count >= steps - decay_steps:
        return peak * (1 - (1 - final) * (count - (steps - decay_steps)) / decay_steps)
    return peak


@pytest.mark.parametrize("name", ["cosine", "wsd", "constant"])
@pytest.mark.parametrize(
    ("steps", "warmup", "final", "decay"), [(12, 4, 0.0, 0.5), (40, 0, 0.1, 0.2), (9, 2, 1.0, 1.0)]
)
def test_rates_match_the_documented_formula(name, steps, warmup, final, decay):
    want = [expected(name, count, steps, warmup, final, decay, 1e-2) for count in range(steps)]
    np.testing.assert_allclose(rates(name, steps, warmup, final=final, decay=decay), want, atol=1e-8)


@pytest.mark.parametrize("name", ["cosine", "wsd", "constant"])
@pytest.mark.parametrize(
    ("steps", "warmup", "decay"), [(1, 0, 0.0), (1, 1, 1.0), (5, 5, 0.2), (5, 9, 0.2), (5, 0, 0.0)]
)
def test_every_update_has_a_finite_positive_rate_at_the_edges(name, steps, warmup, decay):
    """No warm-up, nothing but warm-up, one step, no decay: each divides by zero when done carelessly."""
    found = rates(name, steps, warmup, decay=decay)
    assert np.isfinite(found).all() and (found > 0).all()


@pytest.mark.parametrize("name", ["cosine", "wsd", "constant"])
def test_the_rate_does_not_jump_where_the_warm_up_ends(name):
    """A decay counted from step 0 has already fallen when the warm-up hands over."""
    found = rates(name, 12, 4, final=0.0)
    assert found.max() == found[3] == pytest.approx(1e-2)
    after = np.diff(found[3:])
    assert abs(after[0]) <= max(abs(step) for step in after[1:])
    assert all(b <= a + 1e-9 for a, b in itertools.pairwise(found[3:]))
