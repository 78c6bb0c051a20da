"""Mamba, token by token."""

import jax
import jax.numpy as jnp

from tests.mixers.references.pieces import short_convolution, silu


def mamba(p, x):
    u, z = jnp.split(x @ p["input"]["kernel"], 2, axis=-1)
    u = short_convolution(p["convolution"], u)
    A, D = -jnp.exp(p["A_log"]), p["D"]
    rank = p["dt_kernel"].shape[0]
    maps = u @ p["selection"]["kernel"]
    B, C = maps[..., rank : rank + A.shape[1]], maps[..., rank + A.shape[1] :]
    dt = jnp.logaddexp(maps[..., :rank] @ p["dt_kernel"] + p["dt_bias"], 0.0)

    def step(h, token):
        u, dt, B, C = token
        h = jnp.exp(dt[..., None] * A) * h + (dt * u)[..., None] * B[:, None, :]
        return h, (h * C[:, None, :]).sum(-1) + D * u

    empty = jnp.zeros((x.shape[0], *A.shape))
    _, y = jax.lax.scan(step, empty, tuple(s.swapaxes(0, 1) for s in (u, dt, B, C)))
    return (y.swapaxes(0, 1) * silu(z)) @ p["output"]["kernel"]
