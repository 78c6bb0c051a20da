"""Gated linear attention and HGRN2, token by token."""

import jax.numpy as jnp

from tests.mixers.references.pieces import HEADS, decayed_memory, head_norm, heads_of, sigmoid, silu


def gated_linear_attention(p, x):
    q, k, v = (heads_of(x, p[name]["kernel"]) for name in ("query", "key", "value"))
    forget = p["forget"]
    gate = x @ forget["down"]["kernel"] @ forget["up"] + forget["bias"]
    decay = jnp.exp(-jnp.logaddexp(-gate, 0.0) / 16).reshape(*x.shape[:2], HEADS, -1)
    o = decayed_memory(q, k, v, decay)
    y = head_norm(o, p["output"]["norm"]["scale"]) * silu(x @ p["output"]["gate"]["kernel"])
    return y @ p["output"]["projection"]["kernel"]


def hgrn2(p, x):
    """In the first layer, where the forget gate has no lower bound."""
    q, f, v = (heads_of(x, p[name]["kernel"]) for name in ("query", "forget", "value"))
    o = decayed_memory(silu(q), sigmoid(-f), v, sigmoid(f))
    return head_norm(o, p["output"]["norm"]["scale"]) @ p["output"]["projection"]["kernel"]
