"""mLSTM with its stabiliser, token by token."""

import jax
import jax.numpy as jnp

from tests.mixers.references.pieces import HEADS, head_norm, heads_of, short_convolution, sigmoid


def mlstm(p, x):
    def convolved(name, stream):
        y = short_convolution(p["convolutions"]["streams"][stream], x @ p[name]["kernel"])
        return y.reshape(*x.shape[:2], HEADS, -1)

    q, k, v = convolved("query", 0), convolved("key", 1), heads_of(x, p["value"]["kernel"])
    gates = 15 * jnp.tanh((x @ p["gates"]["kernel"] + p["gate_bias"]) / 15)
    q = q * q.shape[-1] ** -0.5

    def step(memory, token):
        C, n, m = memory
        q, k, v, i, f = token
        log_forget = -jnp.logaddexp(-f, 0.0)
        after = jnp.maximum(log_forget + m, i)
        forget, write = jnp.exp(log_forget + m - after)[..., None], jnp.exp(i - after)[..., None]
        C = forget[..., None] * C + write[..., None] * k[..., :, None] * v[..., None, :]
        n = forget * n + write * k
        size = jnp.abs((n * q).sum(-1, keepdims=True))
        h = jnp.einsum("bhkv,bhk->bhv", C, q) / (jnp.maximum(size, jnp.exp(-after)[..., None]) + 1e-6)
        return (C, n, after), h

    rows = x.shape[0]
    empty = (
        jnp.zeros((rows, *k.shape[2:], v.shape[-1])),
        jnp.zeros((rows, *k.shape[2:])),
        jnp.zeros((rows, HEADS)),
    )
    tokens = (q, k, v, gates[..., :HEADS], gates[..., HEADS:])
    _, h = jax.lax.scan(step, empty, tuple(y.swapaxes(0, 1) for y in tokens))
    y = head_norm(h.swapaxes(0, 1), p["output"]["norm"]["scale"]) * sigmoid(x @ p["output"]["gate"]["kernel"])
    return y @ p["output"]["projection"]["kernel"]
