"""Softmax attention with rotary positions, over all pairs."""

import jax
import jax.numpy as jnp
import numpy as np

from tests.mixers.references.pieces import heads_of


def softmax_attention(p, x):
    q, k, v = (heads_of(x, p[name]["kernel"]) for name in ("query", "key", "value"))
    half = q.shape[-1] // 2
    angles = np.arange(x.shape[1])[:, None] * 10_000.0 ** (-np.arange(half) / half)[None, :]
    turn = np.exp(1j * angles)[None, :, None, :]

    def rotate(y):  # channel pairs (i, i + K/2) as complex numbers
        z = (y[..., :half] + 1j * y[..., half:]) * turn
        return jnp.concatenate([z.real, z.imag], axis=-1)

    logits = jnp.einsum("bthk,bshk->bhts", rotate(q), rotate(k)) / np.sqrt(q.shape[-1])
    seen = np.tril(np.ones((x.shape[1], x.shape[1]), bool))
    weights = jax.nn.softmax(jnp.where(seen[None, None], logits, -np.inf), axis=-1)
    o = jnp.einsum("bhts,bshv->bthv", weights, v)
    return o.reshape(*x.shape[:2], -1) @ p["output"]["kernel"]
