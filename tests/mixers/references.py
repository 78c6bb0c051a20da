"""Each mixer once more: its paper's equation over one document, in float64 and without any of our ops.

A reference takes the parameters as a nested dict of arrays and x [B, T, D], and returns y [B, T, D].
Recurrent mixers step through time; attention holds every pair. Being JAX, references have gradients.
"""

import jax
import jax.numpy as jnp
import numpy as np

HEADS = 2


def heads_of(x, kernel):
    y = x @ kernel
    return y.reshape(*y.shape[:2], HEADS, -1)


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


def mamba(p, x):
    length = x.shape[1]
    u, z = jnp.split(x @ p["input"]["kernel"], 2, axis=-1)
    kernel = p["convolution"]["kernel"]
    padded = jnp.pad(u, ((0, 0), (kernel.shape[0] - 1, 0), (0, 0)))
    u = sum(padded[:, i : i + length] * kernel[i] for i in range(kernel.shape[0])) + p["convolution"]["bias"]
    u = u / (1 + jnp.exp(-u))
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
    return (y.swapaxes(0, 1) * z / (1 + jnp.exp(-z))) @ p["output"]["kernel"]


# Every registered mixer has an entry: the forms test refuses one without.
REFERENCES = {
    "LinearAttention": linear_attention,
    "Mamba": mamba,
    "SoftmaxAttention": softmax_attention,
}
