"""DeltaNet, Gated DeltaNet and Kimi Delta Attention, token by token."""

import jax
import jax.numpy as jnp

from tests.mixers.references.pieces import HEADS, head_norm, short_convolution, sigmoid, silu


def _read(p, x, decay):
    """What the memory gives, [B, T, H, V], where decay is a number, [B, T, H, 1] or [B, T, H, K]."""

    def convolved(name, stream):
        y = short_convolution(p["convolutions"]["streams"][stream], x @ p[name]["kernel"])
        return y.reshape(*x.shape[:2], HEADS, -1)

    def unit(y):
        return y / jnp.sqrt((y**2).sum(-1, keepdims=True) + 1e-6)

    q, k, v = unit(convolved("query", 0)), unit(convolved("key", 1)), convolved("value", 2)
    beta = sigmoid(x @ p["beta"]["kernel"])

    def step(S, token):
        q, k, v, beta, decay = token
        S = decay[..., None] * S
        error = v - jnp.einsum("bhkv,bhk->bhv", S, k)
        S = S + beta[..., None, None] * k[..., :, None] * error[..., None, :]
        return S, jnp.einsum("bhkv,bhk->bhv", S, q)

    empty = jnp.zeros((x.shape[0], HEADS, k.shape[-1], v.shape[-1]))
    tokens = (q, k, v, beta, jnp.broadcast_to(decay, k.shape))
    _, o = jax.lax.scan(step, empty, tuple(y.swapaxes(0, 1) for y in tokens))
    return o.swapaxes(0, 1) * k.shape[-1] ** -0.5


def delta_net(p, x):
    o = head_norm(_read(p, x, 1.0), p["output"]["norm"]["scale"])
    return o @ p["output"]["projection"]["kernel"]


def gated_delta_net(p, x):
    dt = jnp.logaddexp(x @ p["decay"]["kernel"] + p["dt_bias"], 0.0)
    o = _read(p, x, jnp.exp(-jnp.exp(p["A_log"]) * dt)[..., None])
    y = head_norm(o, p["output"]["norm"]["scale"]) * silu(x @ p["output"]["gate"]["kernel"])
    return y @ p["output"]["projection"]["kernel"]


def kimi_delta_attention(p, x):
    f = x @ p["decay"]["down"]["kernel"] @ p["decay"]["up"] + p["dt_bias"]
    dt = jnp.logaddexp(f, 0.0).reshape(*x.shape[:2], HEADS, -1)
    o = _read(p, x, jnp.exp(-jnp.exp(p["A_log"])[:, None] * dt))
    gate = p["output"]["gate"]
    y = head_norm(o, p["output"]["norm"]["scale"]) * sigmoid(x @ gate["down"]["kernel"] @ gate["up"])
    return y @ p["output"]["projection"]["kernel"]
