"""RG-LRU in Griffin's recurrent block, token by token."""

import jax
import jax.numpy as jnp

from tests.mixers.references.pieces import gelu, short_convolution_sum


def rglru(p, x):
    gate = gelu(x @ p["gate"]["kernel"])
    u = short_convolution_sum(p["convolution"], x @ p["input"]["kernel"])

    def block_diagonal(p):
        whole = jax.scipy.linalg.block_diag(*p["kernel"])
        return 1 / (1 + jnp.exp(-(u @ whole + p["bias"])))

    r, i = block_diagonal(p["recurrence_gate"]), block_diagonal(p["input_gate"])
    log_a = -8 * r * jnp.logaddexp(p["Lambda"], 0.0)

    def root(square):  # √, its slope cut off at 1000
        slope = jax.lax.stop_gradient(1 / jnp.maximum(2 * jnp.sqrt(square), 1e-3))
        still = jax.lax.stop_gradient(square)
        return jnp.sqrt(still) + slope * (square - still)

    def step(h, token):
        log_a, entering = token
        h = jnp.exp(log_a) * h + root(-jnp.expm1(2 * log_a)) * entering
        return h, h

    first = i[:, 0] * u[:, 0]
    _, later = jax.lax.scan(step, first, tuple(s[:, 1:].swapaxes(0, 1) for s in (log_a, i * u)))
    h = jnp.concatenate([first[:, None], later.swapaxes(0, 1)], axis=1)
    return (gate * h) @ p["output"]["kernel"]
