"""Softmax attention with rotary positions, over all pairs."""

import jax
import jax.numpy as jnp
import numpy as np

from tests.mixers.references.pieces import heads_of, rotated


def softmax_attention(p, x):
    q, k, v = (heads_of(x, p[name]["kernel"]) for name in ("query", "key", "value"))
    logits = jnp.einsum("bthk,bshk->bhts", rotated(q), rotated(k)) / np.sqrt(q.shape[-1])
    seen = np.tril(np.ones((x.shape[1], x.shape[1]), bool))
    weights = jax.nn.softmax(jnp.where(seen[None, None], logits, -np.inf), axis=-1)
    o = jnp.einsum("bhts,bshv->bthv", weights, v)
    return o.reshape(*x.shape[:2], -1) @ p["output"]["kernel"]
