"""Retention and lightning attention, token by token."""

import jax.numpy as jnp
import numpy as np

from tests.mixers.references.pieces import HEADS, decayed_memory, head_norm, heads_of, rotated, sigmoid, silu


def retention(p, x):
    q, k, v = (heads_of(x, p[name]["kernel"]) for name in ("query", "key", "value"))
    gamma = 1 - 2.0 ** (-5 - np.arange(HEADS))
    o = decayed_memory(rotated(q), rotated(k), v, jnp.broadcast_to(gamma[:, None], q.shape))
    y = head_norm(o, p["output"]["norm"]["scale"]) * silu(x @ p["output"]["gate"]["kernel"])
    return y @ p["output"]["projection"]["kernel"]


def lightning_attention(p, x):
    """In the first of one layer, where the factor of depth is 1 + 1e-5."""
    q, k, v = (silu(heads_of(x, p[name]["kernel"])) for name in ("query", "key", "value"))
    slopes = np.array([2.0 ** (-8 * (h + 1) / HEADS) for h in range(HEADS)]) * (1 + 1e-5)
    o = decayed_memory(q, k, v, jnp.broadcast_to(np.exp(-slopes)[:, None], q.shape))
    y = head_norm(o, p["output"]["norm"]["scale"]) * sigmoid(x @ p["output"]["gate"]["kernel"])
    return y @ p["output"]["projection"]["kernel"]
