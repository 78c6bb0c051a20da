"""The learning rate as a function of the updates made so far.

With S steps, W warm-up steps and c updates made (0 for the first update, S - 1 for the last):

    c < W                  rate (c + 1) / W
    cosine                 rate (f + (1 - f) (1 + cos(pi p)) / 2),  p = (c - W) / (S - W)
    wsd, c >= S - D        rate (1 - (1 - f) p),  p = (c - (S - D)) / D
    wsd before, constant   rate

where f is the final fraction and D = min(round(decay_fraction S), S - W).

S counts the warm-up. The rate is at its peak at c = W - 1 and at c = W, and would reach its final fraction
at c = S, one past the last update, so that no update is wasted on a rate of 0. Micro-batches are no updates.
"""

from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp

Name = Literal["cosine", "wsd", "constant"]
Schedule = Callable[[jax.Array], jax.Array]  # int32 count of updates made -> float32 learning rate


def schedule(
    name: Name,
    *,
    learning_rate: float | jax.Array,
    steps: int,
    warmup_steps: int,
    final_fraction: float,
    decay_fraction: float,
) -> Schedule:
    """The schedule of the formula above; finite for any lengths, no warm-up and no decay included."""
    steps, warmup_steps = float(steps), float(warmup_steps)  # JAX takes no int beyond 31 bits
    after_warmup = max(steps - warmup_steps, 1.0)
    decay_steps = min(float(round(decay_fraction * steps)), max(steps - warmup_steps, 0.0))

    def shape(count: jax.Array) -> jax.Array:
        if name == "cosine":
            progress = jnp.clip((count - warmup_steps) / after_warmup, 0.0, 1.0)
            return final_fraction + (1.0 - final_fraction) * 0.5 * (1.0 + jnp.cos(jnp.pi * progress))
        if name == "wsd" and decay_steps > 0:
            progress = jnp.clip((count - (steps - decay_steps)) / decay_steps, 0.0, 1.0)
            return 1.0 - (1.0 - final_fraction) * progress
        return jnp.ones_like(count)

    def rate(count: jax.Array) -> jax.Array:
        count = count.astype(jnp.float32)
        warmup = jnp.minimum((count + 1.0) / max(warmup_steps, 1.0), 1.0)
        return learning_rate * jnp.where(count < warmup_steps, warmup, shape(count))

    return rate
