"""Linear attention with elu + 1 and its normaliser, token by token."""

import jax
import jax.numpy as jnp

from tests.mixers.references.pieces import HEADS, heads_of


def linear_attention(p, x):
    q, k, v = (heads_of(x, p[name]["kernel"]) for name in ("query", "key", "value"))
    q, k = (jnp.where(y > 0, y + 1, jnp.exp(jnp.minimum(y, 0))) for y in (q, k))

    def step(state, token):
        kv, z = state
        q, k, v = token
        kv = kv + k[..., :, None] * v[..., None, :]
        z = z + k
        return (kv, z), jnp.einsum("bhk,bhkv->bhv", q, kv) / (q * z).sum(-1)[..., None]

    empty = (
        jnp.zeros((x.shape[0], HEADS, k.shape[-1], v.shape[-1])),
        jnp.zeros((x.shape[0], HEADS, k.shape[-1])),
    )
    _, o = jax.lax.scan(step, empty, tuple(y.swapaxes(0, 1) for y in (q, k, v)))
    return o.swapaxes(0, 1).reshape(*x.shape[:2], -1) @ p["output"]["kernel"]
