"""The diagonal system behind LRU and S5 against their published code, and the zero-order hold."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from seqmodels.nn.diagonal_system import DiagonalSystem
from seqmodels.nn.zero_order_hold import zero_order_hold


def run(x, B, C, D, a, b, conjugates, method):
    """A system with these maps over x [T, D]."""
    system = DiagonalSystem(B, C, conjugates=conjugates, rngs=nnx.Rngs(0))
    system.D[...] = D
    y, _ = system(x[None], a, b, system.init_state(1), segment_ids=None, method=method)
    return y[0]


def lru(x, nu_log, theta_log, gamma_log, B_re, B_im, C_re, C_im, D, method):
    a = jnp.exp(jax.lax.complex(-jnp.exp(nu_log), jnp.exp(theta_log)))
    b = jnp.exp(gamma_log).astype(jnp.complex64)
    return run(x, jax.lax.complex(B_re, B_im), jax.lax.complex(C_re, C_im), D, a, b, False, method)


def s5(u, Lambda_re, Lambda_im, B, C, D, log_step, method, conjugates=True):
    exponent, b = zero_order_hold(jax.lax.complex(Lambda_re, Lambda_im), jnp.exp(log_step))
    B, C = (jax.lax.complex(pairs[..., 0], pairs[..., 1]) for pairs in (B, C))
    return run(u, B, C, D, jnp.exp(exponent), b, conjugates, method)


@pytest.mark.parametrize("method", ["sequential", "associative"])
@pytest.mark.parametrize("case", ["T1", "T5", "T37", "T64", "T130"])
def test_vectors_of_lru(refs, case, method):
    """Wrong if the sign of an imaginary part or the place of γ is not that of minimal-LRU (bbd71b1)."""
    check(os.path.join(refs, "ops", "lru", f"{case}.npz"), lambda **inputs: lru(**inputs, method=method))


@pytest.mark.parametrize("method", ["sequential", "associative"])
@pytest.mark.parametrize("case", ["zoh_T5", "zoh_T37", "zoh_noconj_T64"])
def test_vectors_of_s5(refs, case, method):
    """Wrong if the hold, or the factor 2 of conjugate pairs, is not that of the published S5 (3c18fdb)."""
    check(
        os.path.join(refs, "ops", "s5", f"{case}.npz"),
        lambda **inputs: s5(**inputs, method=method, conjugates="noconj" not in case),
    )


def check(file, layer):
    data = dict(np.load(file))
    inputs = {name.removeprefix("in_"): value for name, value in data.items() if name.startswith("in_")}

    @jax.jit
    def pull(inputs, cotangent):
        y, pullback = jax.vjp(lambda inputs: layer(**inputs), inputs)
        return y, pullback(cotangent)[0]

    y, gradients = pull(inputs, data["cot"])
    np.testing.assert_allclose(y, data["out"], rtol=0, atol=2e-5 * np.abs(data["out"]).max())
    for name, gradient in gradients.items():
        wanted = data[f"grad_{name}"]
        np.testing.assert_allclose(gradient, wanted, rtol=0, atol=1e-4 * np.abs(wanted).max(), err_msg=name)


def test_the_difference_from_one_does_not_cancel():
    """e^z − 1 by subtraction keeps three digits at |z| = 1e-4: slow channels would read a wrong input."""
    rng = np.random.default_rng(0)
    z = -(10 ** rng.uniform(-7, 1, 10_000)) + 1j * 10 ** rng.uniform(-7, 2, 10_000)
    z = z.astype(np.complex64)
    exponent, scale = zero_order_hold(jnp.asarray(z), jnp.full(z.shape, 1e-3, jnp.float32))
    held = 1e-3 * z.astype(np.complex128)
    np.testing.assert_allclose(exponent, held, rtol=1e-6)
    np.testing.assert_allclose(scale, np.expm1(held) / z, rtol=1e-6)
