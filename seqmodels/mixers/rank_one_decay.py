"""How fast a memory fades whose transition is a diagonal and one outer product, as in the delta rules."""

import jax
import jax.numpy as jnp


def rank_one_log_decays(decay: jax.Array, a: jax.Array, b: jax.Array, key: jax.Array) -> dict[str, jax.Array]:
    """log ‖Mᵀu‖ for M = diag(decay) + b aᵀ, which makes M S out of S [K, V]: what a reader u of length 1,
    who read uᵀS, finds left of it.

    decay, a, b, key: float32 [B, T, H, K]; decay may be [B, T, H, 1]. Returns two arrays [B, T, H], at most 0
    for the transitions of our mixers, -inf where nothing is left:
      "written": u along `key`. Where that is 0 and has no direction, as "random".
      "random": ½ log of the mean of ‖Mᵀu‖² over all u of length 1. That mean is tr(M Mᵀ) / K exactly, since
        the mean of u uᵀ is I / K. For M = I − β k kᵀ and |k| = 1 it is 1 − (2β − β²)/K, so "random" is
        ½ log(1 − (2β − β²)/K) and "written" log|1 − β|. The mean of log ‖Mᵀu‖ itself lies below, by Jensen's
        inequality, by about (2β − β²)² / (2K²). The direction is meant to be drawn anew for every token.
    """
    decay = jnp.broadcast_to(decay, a.shape)
    left = decay * key + a * (b * key).sum(axis=-1, keepdims=True)
    squares = (decay**2 + 2 * decay * a * b).sum(axis=-1) + (a**2).sum(axis=-1) * (b**2).sum(axis=-1)
    random = 0.5 * jnp.log(jnp.maximum(squares, 0) / a.shape[-1])
    length = jnp.linalg.norm(key, axis=-1)
    written = jnp.log(jnp.linalg.norm(left, axis=-1)) - jnp.log(jnp.where(length > 0, length, 1))
    written = jnp.where(length > 0, written, random)
    return {"written": jnp.minimum(written, 0), "random": jnp.minimum(random, 0)}


def delta_log_decays(g: jax.Array, k: jax.Array, beta: jax.Array) -> dict[str, jax.Array]:
    """`rank_one_log_decays` of M = (I − β k kᵀ) diag(e^g).

    g: [B, T, H, K] or [B, T, H, 1]; k: [B, T, H, K]; beta: [B, T, H]; float32.
    """
    # The squares of e^g would be 0 in float32 from g = −44 on.
    slowest = g.max(axis=-1, keepdims=True)
    decay = jnp.exp(g - slowest)
    rest = rank_one_log_decays(decay, decay * k, -beta[..., None] * k, k)
    return {name: value + slowest[..., 0] for name, value in rest.items()}
