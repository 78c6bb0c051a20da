"""What several equations begin or end with, once more and without our modules."""

import jax
import jax.numpy as jnp
import numpy as np

HEADS = 2


def heads_of(x, kernel):
    y = x @ kernel
    return y.reshape(*y.shape[:2], HEADS, -1)


def sigmoid(x):
    return 1 / (1 + jnp.exp(-x))


def silu(x):
    return x / (1 + jnp.exp(-x))


def gelu(x):
    """In its form by tanh."""
    return 0.5 * x * (1 + jnp.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def short_convolution(p, x):
    """SiLU(Σ_i kernel_i x_{t−W+1+i} + bias), zeros before the document."""
    return silu(short_convolution_sum(p, x))


def short_convolution_sum(p, x):
    kernel, length = p["kernel"], x.shape[1]
    padded = jnp.pad(x, ((0, 0), (kernel.shape[0] - 1, 0), (0, 0)))
    y = sum(padded[:, i : i + length] * kernel[i] for i in range(kernel.shape[0]))
    return y + p["bias"] if "bias" in p else y


def rotated(y):
    """Channel pairs (i, i + K/2) of [B, T, H, K] as complex numbers, turned by t · 10000^(−2i/K)."""
    half = y.shape[-1] // 2
    angles = np.arange(y.shape[1])[:, None] * 10_000.0 ** (-np.arange(half) / half)[None, :]
    z = (y[..., :half] + 1j * y[..., half:]) * np.exp(1j * angles)[None, :, None, :]
    return jnp.concatenate([z.real, z.imag], axis=-1)


def head_norm(o, scale):
    """RMS norm in each head of [B, T, H, V], the heads then side by side."""
    o = o / jnp.sqrt((o**2).mean(-1, keepdims=True) + 1e-5) * scale
    return o.reshape(*o.shape[:2], -1)


def decayed_memory(q, k, v, decay, scale=None):
    """S = diag(decay) S + k vᵀ, o = K^−½ qᵀ S; q, k, decay [B, T, H, K], v [B, T, H, V]."""

    def step(S, token):
        q, k, v, decay = token
        S = decay[..., None] * S + k[..., :, None] * v[..., None, :]
        return S, jnp.einsum("bhk,bhkv->bhv", q, S)

    empty = jnp.zeros((*q.shape[:1], *q.shape[2:], v.shape[-1]))
    _, o = jax.lax.scan(step, empty, tuple(y.swapaxes(0, 1) for y in (q, k, v, decay)))
    return o.swapaxes(0, 1) * (q.shape[-1] ** -0.5 if scale is None else scale)
