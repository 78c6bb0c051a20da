"""The mixers whose state is a vector of complex numbers that do not meet, token by token."""

import jax
import jax.numpy as jnp

from tests.mixers.references.pieces import gelu


def lru(p, x):
    nu = jnp.exp(p["nu_log"])
    decay = jnp.exp(-nu + 1j * jnp.exp(p["theta_log"]))
    y = dense_system(p["system"], x, decay, jnp.sqrt(1 - jnp.abs(decay) ** 2), factor=1)
    return gated_output(p["output"], y)


def dense_system(p, x, decay, scale, factor):
    """h = decay h + scale B x, y = factor Re(C h) + D x; of B and C the real part comes first."""
    size = decay.shape[0]
    B = p["B"][:, :size] + 1j * p["B"][:, size:]
    C = p["C"][:size] + 1j * p["C"][size:]

    def step(h, x):
        h = decay * h + scale * (x @ B)
        return h, factor * (h @ C).real + p["D"] * x

    empty = jnp.zeros((x.shape[0], size), decay.dtype)
    return jax.lax.scan(step, empty, x.swapaxes(0, 1))[1].swapaxes(0, 1)


def gated_output(p, y):
    u, gate = jnp.split(gelu(y) @ p["projection"]["kernel"], 2, axis=-1)
    return u / (1 + jnp.exp(-gate))


def s5(p, x):
    A = -jnp.exp(p["A_log"]) + 1j * p["A_imag"]
    decay = jnp.exp(jnp.exp(p["dt_log"]) * A)
    y = dense_system(p["system"], x, decay, (decay - 1) / A, factor=2)
    return gated_output(p["output"], y)


def s4d(p, x):
    A = -jnp.exp(p["A_log"]) + 1j * p["A_imag"]
    decay = jnp.exp(jnp.exp(p["dt_log"])[:, None] * A)
    C = p["C"][0] + 1j * p["C"][1]

    def step(h, x):
        h = decay * h + (decay - 1) / A * x[..., None]
        return h, 2 * (C * h).sum(-1).real + p["D"] * x

    empty = jnp.zeros((x.shape[0], *A.shape), A.dtype)
    y = jax.lax.scan(step, empty, x.swapaxes(0, 1))[1].swapaxes(0, 1)
    return gated_output(p["output"], y)
