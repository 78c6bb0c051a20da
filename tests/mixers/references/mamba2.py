"""Mamba-2, token by token."""

import jax.numpy as jnp

from tests.mixers.references.pieces import decayed_memory, short_convolution, silu

STATE_SIZE = 128


def mamba2(p, x):
    heads, N = p["A_log"].shape[0], STATE_SIZE
    inner = p["output"]["kernel"].shape[0]
    projected = x @ p["input"]["kernel"]
    z, dt = projected[..., :inner], projected[..., -heads:]
    u = short_convolution(p["convolution"], projected[..., inner:-heads])
    values = u[..., :inner].reshape(*x.shape[:2], heads, -1)
    B, C = (jnp.repeat(u[..., first : first + N][:, :, None], heads, axis=2) for first in (inner, inner + N))
    dt = jnp.logaddexp(dt + p["dt_bias"], 0.0)
    decay = jnp.broadcast_to(jnp.exp(-dt * jnp.exp(p["A_log"]))[..., None], B.shape)
    y = decayed_memory(C, B, dt[..., None] * values, decay, scale=1.0) + p["D"][:, None] * values
    y = y.reshape(*x.shape[:2], -1) * silu(z)
    y = y / jnp.sqrt((y**2).mean(-1, keepdims=True) + 1e-5) * p["norm"]["scale"]
    return y @ p["output"]["kernel"]
