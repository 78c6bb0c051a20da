"""Where documents begin and end: positions, borders and padding, read off `segment_ids` [B, T].

0 is padding, a positive number names a document, and ids are contiguous among real tokens. Padding may stand
anywhere and changes nothing: every function here looks through it.
"""

import jax
import jax.numpy as jnp


def last_real_id(segment_ids: jax.Array, before: jax.Array) -> jax.Array:
    """[B]: the id of each row's last real token; `before` [B] where a row holds padding alone."""
    index = jnp.where(segment_ids != 0, jnp.arange(segment_ids.shape[1])[None, :], -1).max(axis=1)
    found = jnp.take_along_axis(segment_ids, jnp.maximum(index, 0)[:, None], axis=1)[:, 0]
    return jnp.where(index >= 0, found, before)


def first_real_id(segment_ids: jax.Array, default: jax.Array) -> jax.Array:
    """[B]: the id of each row's first real token; `default` [B] where a row holds padding alone."""
    return last_real_id(segment_ids[:, ::-1], default)


def starts(segment_ids: jax.Array) -> jax.Array:
    """[B, T] bool: true at the first token of every document but the row's first.

    The first document of a row may continue what came before the row, so its first token is no border.
    """
    batch, length = segment_ids.shape
    real = segment_ids != 0
    index = jax.lax.cummax(jnp.where(real, jnp.arange(length)[None, :], -1), axis=1)
    previous = jnp.concatenate([jnp.full((batch, 1), -1, index.dtype), index[:, :-1]], axis=1)
    previous_id = jnp.take_along_axis(segment_ids, jnp.maximum(previous, 0), axis=1)
    return real & (previous >= 0) & (segment_ids != previous_id)


def ordinals(segment_ids: jax.Array) -> jax.Array:
    """[B, T] int32: how many borders stand at or before each position.

    0 is the document that may continue the incoming state. Padding carries the ordinal of the document before
    it (0 at the start of a row), so the last column names each row's last document even behind padding.
    """
    return jnp.cumsum(starts(segment_ids).astype(jnp.int32), axis=1)


def positions(segment_ids: jax.Array, first: jax.Array | None = None) -> jax.Array:
    """[B, T] int32: each real token's position in its document, counted in real tokens from 0.

    first: [B] int32, the position of the row's first real token where its document began before the row.
    At padding the value is that of the next real token of the same document; nothing reads it.
    """
    real = (segment_ids != 0).astype(jnp.int32)
    before = jnp.cumsum(real, axis=1) - real
    origin = jax.lax.cummax(jnp.where(starts(segment_ids), before, 0), axis=1)
    count = before - origin
    if first is not None:
        count = count + jnp.where(ordinals(segment_ids) == 0, first[:, None], 0)
    return count


def last_count(segment_ids: jax.Array, before: jax.Array) -> jax.Array:
    """[B] int32: real tokens so far of each row's last document.

    before: [B] int32, those of the row's first document that came before the row.
    """
    order = ordinals(segment_ids)
    last = order[:, -1:]
    inside = ((segment_ids != 0) & (order == last)).sum(axis=1).astype(jnp.int32)
    return inside + jnp.where(last[:, 0] == 0, before, 0)


def without_padding(segment_ids: jax.Array | None, *arrays: jax.Array | None):
    """The ordinals [B, T], and every array [1 or B, T, ...] with zeros at padding.

    Without segment_ids the ordinals are None and the arrays as they are; an array that is None stays None.
    """
    if segment_ids is None:
        return None, arrays
    real = segment_ids != 0

    def selected(array):
        return jnp.where(real.reshape(real.shape + (1,) * (array.ndim - 2)), array, 0)

    return ordinals(segment_ids), jax.tree.map(selected, arrays)


def kept_by_padding(segment_ids: jax.Array | None, state: jax.Array, final: jax.Array) -> jax.Array:
    """`final` [B, ...], but where a row is padding alone `state`, bit for bit."""
    if segment_ids is None:
        return final
    real = (segment_ids != 0).any(axis=1)
    return jnp.where(real.reshape(real.shape + (1,) * (final.ndim - 1)), final, state)
