"""S5's own initialisation and settings."""

import re

import numpy as np
import pytest
from flax import nnx

from seqmodels.errors import InputError
from seqmodels.mixers import S5
from seqmodels.mixers.s5 import hippo_normal


def test_eigenvalues_are_those_of_the_normal_part_of_hippo():
    """Built from the definition: HiPPO-LegS plus √(i+½)√(j+½) is normal, and these are half its spectrum."""
    size = 8
    hippo = np.zeros((size, size))
    for i in range(size):
        for j in range(i + 1):
            hippo[i, j] = -(i + 1) if i == j else -np.sqrt((2 * i + 1) * (2 * j + 1))
    half = np.sqrt(np.arange(size) + 0.5)
    normal = hippo + np.outer(half, half)
    eigenvalues, vectors = hippo_normal(size)
    np.testing.assert_allclose(normal @ vectors, vectors * eigenvalues, atol=1e-9)
    np.testing.assert_allclose(vectors.conj().T @ vectors, np.eye(size // 2), atol=1e-9)
    assert (eigenvalues.imag > 0).all()


def test_it_starts_as_a_real_system():
    """2 Re(C h) over half the eigenvectors is a real system's output: halving it wrongly loses a part."""
    size, width = 8, 32
    mixer = S5(width, state_size=size, rngs=nnx.Rngs(0))
    _, vectors = hippo_normal(size)
    B, C = np.asarray(mixer.system.B[...]), np.asarray(mixer.system.C[...])
    B = B[:, : size // 2] + 1j * B[:, size // 2 :]
    C = C[: size // 2] + 1j * C[size // 2 :]
    real_C, real_B = 2 * (vectors.conj() @ C).real, 2 * (vectors @ B.T).real
    np.testing.assert_allclose(2 * (B @ C).real, (real_C.T @ real_B).T, atol=1e-6)
    np.testing.assert_allclose(real_B.std(), width**-0.5, rtol=0.2)


def test_each_eigenvalue_has_its_own_step():
    """Log-uniform in [1e-3, 1e-1]: one step for all would leave one time scale."""
    steps = np.exp(np.asarray(S5(64, state_size=512, rngs=nnx.Rngs(0)).dt_log[...]))
    assert 0.00099 <= steps.min() < 0.0012
    assert 0.08 < steps.max() <= 0.1001


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"state_size": 7}, "S5.state_size is 7; its eigenvalues come in pairs, so it must be even"),
        ({"state_size": 0}, "S5.state_size is 0; it must be at least 1"),
        ({"method": "chunked"}, "S5.method is 'chunked'; it must be one of auto, sequential, associative"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(InputError, match=re.escape(message)):
        S5(32, rngs=nnx.Rngs(0), **settings)
