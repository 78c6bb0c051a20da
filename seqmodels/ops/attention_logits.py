"""What one logit is and which keys a query sees, for blocks of any orientation."""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Places(NamedTuple):
    """Where tokens stand: `ids` of their documents (0: padding) and `positions` in them, alike in shape."""

    ids: jax.Array
    positions: jax.Array


class Rule(NamedTuple):
    """The settings of `softmax_attention` that shape a logit and that are no arrays."""

    window: int | None
    softcap: float | None


def logits(
    products: jax.Array, rule: Rule, queries: Places, keys: Places, slopes: jax.Array | None
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Logits from the scaled products q . k; -inf where the key is not seen.

    products: [B, G, ., .]; queries and keys in [B, ., .] and slopes in [G, ., .] broadcast against it. Also
    returns the capped products and the distances pos_i - pos_j, which gradients need.
    """
    distance = queries.positions - keys.positions
    seen = (queries.ids == keys.ids) & (queries.ids != 0) & (distance >= 0)
    if rule.window is not None:
        seen &= distance < rule.window
    capped = products if rule.softcap is None else rule.softcap * jnp.tanh(products / rule.softcap)
    distance = distance[:, None].astype(capped.dtype)
    sloped = capped if slopes is None else capped - slopes[None] * distance
    return jnp.where(seen[:, None], sloped, -jnp.inf), capped, distance


def across(places: Places) -> Places:
    """[B, n] to [B, n, 1]: down the rows of a block."""
    return Places(*(array[:, :, None] for array in places))


def along(places: Places) -> Places:
    """[B, n] to [B, 1, n]: along the columns of a block."""
    return Places(*(array[:, None, :] for array in places))
