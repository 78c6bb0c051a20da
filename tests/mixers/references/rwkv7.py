"""RWKV-7's time mixing without the value residual, token by token."""

import jax
import jax.numpy as jnp
import numpy as np

from tests.mixers.references.pieces import HEADS, sigmoid


def rwkv7(p, x):
    before = jnp.pad(x, ((0, 0), (1, 0), (0, 0)))[:, :-1]
    for_r, for_gate, for_k, for_v, for_decay, for_alpha = (x + (before - x) * share for share in p["lerp"])

    def low_rank(name, y, activation=lambda y: y):
        y = activation(y @ p[name]["down"]["kernel"]) @ p[name]["up"]
        return y + p[name]["bias"] if "bias" in p[name] else y

    def heads(y):
        return y.reshape(*x.shape[:2], HEADS, -1)

    r, k, v = for_r @ p["receptance"]["kernel"], for_k @ p["key"]["kernel"], for_v @ p["value"]["kernel"]
    decay = jnp.exp(-np.exp(-0.5) * sigmoid(low_rank("decay", for_decay, jnp.tanh)))
    alpha = sigmoid(low_rank("alpha", for_alpha))
    kappa = heads(k * p["kappa_scale"])
    kappa = kappa / jnp.sqrt((kappa**2).sum(-1, keepdims=True) + 1e-6)
    k = k * (1 + (alpha - 1) * p["alpha_scale"])
    r, k, v, decay, alpha = (heads(y) for y in (r, k, v, decay, alpha))

    def step(S, token):
        r, k, v, decay, alpha, kappa = token
        removed = jnp.einsum("bhk,bhkv->bhv", kappa, S)
        S = decay[..., None] * S - (kappa * alpha)[..., None] * removed[..., None, :]
        S = S + k[..., None] * v[..., None, :]
        return S, jnp.einsum("bhk,bhkv->bhv", r, S)

    empty = jnp.zeros((x.shape[0], HEADS, k.shape[-1], v.shape[-1]))
    tokens = (r, k, v, decay, alpha, kappa)
    _, o = jax.lax.scan(step, empty, tuple(y.swapaxes(0, 1) for y in tokens))
    o = o.swapaxes(0, 1)
    o = o - o.mean(-1, keepdims=True)
    o = o / jnp.sqrt((o**2).mean(-1, keepdims=True) + 1e-5 * o.shape[-1])
    o = o * p["norm"]["scale"] + p["norm"]["bias"]
    o = o + (r * k * p["bonus_scale"].reshape(HEADS, -1)).sum(-1, keepdims=True) * v
    gate = low_rank("gate", for_gate, sigmoid)
    return (o.reshape(*x.shape[:2], -1) * gate) @ p["output"]["kernel"]
