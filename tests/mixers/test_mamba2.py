"""Mamba-2's own initialisation, what its core is the same as, and the published code's outputs."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from seqmodels.errors import InputError
from seqmodels.mixers import Mamba2
from seqmodels.mixers.mamba2 import state_space
from seqmodels.ops import linear_attention, selective_scan
from tests.mixers.subjects import agree, normal, relative_rms


def test_initialisation_of_rates_and_steps():
    """Rates uniform in [1, 16] and steps log-uniform in [1e-3, 1e-1], one a head; D = 1."""
    mixer = Mamba2(256, expand=64, rngs=nnx.Rngs(0))  # 256 heads to judge a distribution by
    rates = np.sort(np.exp(mixer.A_log[...]))
    steps = np.sort(np.log(jax.nn.softplus(mixer.dt_bias[...])))
    # Kolmogorov-Smirnov against uniform: 256 draws stay within 0.13 but once in a thousand.
    for values, low, high in ((rates, 1, 16), (steps, np.log(1e-3), np.log(1e-1))):
        assert low - 1e-4 <= values[0] < values[-1] <= high + 1e-4
        assert np.abs((values - low) / (high - low) - np.linspace(0, 1, 256)).max() < 0.13
    np.testing.assert_array_equal(mixer.D[...], 1)


def test_its_core_is_mambas_scan_with_one_rate_and_step_a_head():
    """Where all channels of a head share A and dt, selective_scan computes the same, state transposed."""
    heads, P, N = 2, 4, 8
    x, dt = normal(2, 30, heads, P), np.abs(normal(2, 30, heads, seed=1))
    B, C = normal(2, 30, N, seed=2), normal(2, 30, N, seed=3)
    A = -np.array([0.3, 4.0], np.float32)
    channels = np.repeat(A, P)[:, None] * np.ones((1, N), np.float32)
    wanted, scan = selective_scan(x.reshape(2, 30, -1), np.repeat(dt, P, axis=2), channels, B, C)
    k, q = (np.repeat(y[:, :, None], heads, axis=2) for y in (B, C))
    y, state = linear_attention(
        q, k, jnp.asarray(dt)[..., None] * x, log_decay=dt * A[None, None, :], scale=1.0
    )
    agree(y.reshape(2, 30, -1), wanted)
    agree(state.kv.swapaxes(2, 3).reshape(scan.shape), scan)


def test_the_gate_comes_before_the_norm():
    """RMSNorm(y · SiLU(z)) has mean square 1 over all channels; RMSNorm(y) · SiLU(z) has not."""
    mixer = Mamba2(32, state_size=8, rngs=nnx.Rngs(0))
    mixer.output.kernel[...] = jnp.eye(64, 32)
    other = Mamba2(32, state_size=8, rngs=nnx.Rngs(0))
    other.output.kernel[...] = jnp.eye(64)[:, 32:]
    x = 10 * normal(1, 9, 32)
    halves = [np.asarray(mixer(x)[0]) for mixer in (mixer, other)]
    np.testing.assert_allclose((np.concatenate(halves, axis=-1) ** 2).mean(-1), 1.0, atol=2e-2)


def test_sizes():
    """The state holds E · N numbers and the window of x, B and C together."""
    state = Mamba2(96, head_dim=32, state_size=16, rngs=nnx.Rngs(0)).init_state(2, 100)
    assert state.memory.shape == (2, 6, 16, 32)
    assert state.windows[0].shape == (2, 3, 192 + 32)


@pytest.mark.parametrize("length", [5, 37])
def test_the_published_layer(refs, length):
    """A's sign, dt in both of its places, no scale, and D: outputs of mamba_ssm with two groups of heads."""
    case = np.load(Path(refs, "ops", "ssd_full", f"T{length}.npz"))
    x, dt, A, D = (case["in_" + name] for name in ("x", "dt", "A", "D"))
    dt = np.logaddexp(dt + case["in_dt_bias"], 0).astype(np.float32)
    outputs = []
    for group in range(2):
        part = slice(2 * group, 2 * group + 2)
        y, _ = state_space(
            x[:, :, part],
            dt[:, :, part],
            A[part],
            case["in_B"][:, :, group],
            case["in_C"][:, :, group],
            D[part],
            np.zeros((len(x), 2, 5, 6), np.float32),
            segment_ids=None,
            method="auto",
            chunk_size=16,
        )
        outputs.append(y)
    z = case["in_z"]
    assert relative_rms(np.concatenate(outputs, axis=2) * z / (1 + np.exp(-z)), case["out"]) <= 2e-6


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"head_dim": 48}, "Mamba2.head_dim is 48, which does not divide expand · width, 64"),
        ({"state_size": 0}, "Mamba2.state_size is 0; it must be at least 1"),
        ({"expand": 0}, "Mamba2.expand is 0; it must be at least 1"),
        ({"method": "fft"}, "Mamba2.method is 'fft'; it must be one of auto, sequential"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(InputError, match=re.escape(message)):
        Mamba2(32, rngs=nnx.Rngs(0), **settings)
