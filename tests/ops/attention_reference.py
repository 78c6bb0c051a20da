"""Softmax attention as dense float64 sums with gradients worked out by hand, and inputs that try it."""

import jax.numpy as jnp
import numpy as np


def reference(arrays, places, do, *, window=None, softcap=None):
    """o and the gradients of sum(o do), head by head: places are (ids, positions, kv ids, kv positions)."""
    q, k, v = (np.asarray(arrays[name], np.float64) for name in ("q", "k", "v"))
    ids, positions, kv_ids, kv_positions = places
    gradients = {name: np.zeros(np.shape(array)) for name, array in arrays.items()}
    o = np.zeros((*q.shape[:3], v.shape[3]))
    scale = q.shape[3] ** -0.5
    for b in range(q.shape[0]):
        distance = positions[b][:, None] - kv_positions[b][None, :]
        seen = (ids[b][:, None] == kv_ids[b][None, :]) & (ids[b][:, None] != 0) & (distance >= 0)
        seen &= distance < (window or np.inf)
        for h in range(q.shape[2]):
            group = h // (q.shape[2] // k.shape[2])
            raw = scale * q[b, :, h] @ k[b, :, group].T
            capped = softcap * np.tanh(raw / softcap) if softcap else raw
            logits = capped - float(arrays["slopes"][h]) * distance if "slopes" in arrays else capped
            sink = float(arrays["sinks"][h]) if "sinks" in arrays else -np.inf
            top = np.maximum(np.where(seen, logits, -np.inf).max(axis=1), sink)
            top = np.where(np.isfinite(top), top, 0)[:, None]
            weights = np.where(seen, np.exp(np.where(seen, logits - top, 0)), 0)
            total = weights.sum(axis=1, keepdims=True) + np.exp(sink - top)
            weights = weights / np.where(total == 0, 1, total)
            o[b, :, h] = weights @ v[b, :, group]
            along = (do[b, :, h] * o[b, :, h]).sum(axis=1, keepdims=True)
            dlogits = weights * (do[b, :, h] @ v[b, :, group].T - along)
            gradients["v"][b, :, group] += weights.T @ do[b, :, h]
            if "sinks" in arrays:
                gradients["sinks"][h] -= (np.exp(sink - top) / total * along).sum()
            if "slopes" in arrays:
                gradients["slopes"][h] -= (dlogits * distance).sum()
            draw = dlogits * (1 - (capped / softcap) ** 2 if softcap else 1)
            gradients["q"][b, :, h] = scale * draw @ k[b, :, group]
            gradients["k"][b, :, group] += scale * draw.T @ q[b, :, h]
    return o, gradients


def rows_of_ids(length):
    """[6, length]: one document; borders in blocks; documents of a token; padding around, inside or alone."""
    t = np.arange(length)
    packed = 1 + (t >= 5) + (t >= length - 2)
    single = np.where(t < length // 2, t + 1, length + 1)
    outside = np.where((t < length // 4) | (t >= length - length // 5), 0, 7)
    inside = np.where(t % 5 == 2, 0, packed)
    return np.stack([np.ones(length), packed, single, outside, inside, np.zeros(length)]).astype(np.int32)


def counted(ids):
    """Positions by the rule, token by token: real tokens of the same document before this one."""
    positions = np.zeros_like(ids)
    for b, t in np.ndindex(ids.shape):
        positions[b, t] = (ids[b, :t] == ids[b, t]).sum()
    return positions


def draw(batch, length, source, heads, groups, *, sinks=False, slopes=False, dtype=jnp.float32):
    """Random arrays by name, with K = 6 and V = 4, and a cotangent of the output."""
    random = np.random.default_rng(length + source)
    shapes = {"q": (length, heads, 6), "k": (source, groups, 6), "v": (source, groups, 4)}
    arrays = {n: jnp.asarray(random.normal(size=(batch, *shape)), dtype) for n, shape in shapes.items()}
    if sinks:
        arrays["sinks"] = jnp.asarray(random.normal(size=heads), jnp.float32)
    if slopes:
        arrays["slopes"] = jnp.asarray(random.uniform(0, 0.5, heads), jnp.float32)
    return arrays, random.normal(size=(batch, length, heads, 4)).astype(np.float32)
