"""From a differential equation to a recurrence: dh/dt = A h + B x with x held still through each step."""

import jax
import jax.numpy as jnp


def zero_order_hold(rate: jax.Array, step: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(ΔA, (e^{ΔA} − 1)/A): the logarithm of what multiplies h, and what multiplies B x.

    rate: A, complex64, not 0. step: Δ, float32, broadcast over A. In real arithmetic, by expm1: subtraction
    cancels near 0, and XLA's own complex expm1 errs by 5e-5 for some arguments.
    """
    r, i = rate.real, rate.imag
    a, b = step * r, step * i
    half = jnp.sin(0.5 * b)
    grown, turned = jnp.expm1(a) * jnp.cos(b) - 2.0 * half * half, jnp.exp(a) * jnp.sin(b)
    size = r * r + i * i
    scale = jax.lax.complex((grown * r + turned * i) / size, (turned * r - grown * i) / size)
    return jax.lax.complex(a, b), scale
