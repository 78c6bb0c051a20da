"""The key/value cache of softmax attention, as a state: preallocated, packed, written in place.

It holds the tokens of each row's current document alone, without padding, in slot = position; a ring buffer
of the window's size holds position p in slot p mod window and is never full. A new document starts again at
slot 0, and what an older one left in the slots is not read, because `position` says how many are in use.
"""

from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from seqmodels.errors import InputError
from seqmodels.mixers.base import current_id, current_position
from seqmodels.ops import segments


class KVCache(NamedTuple):
    """keys [B, G, S, K] and values [B, G, S, V] in S slots, which lie so that a query meets each group's keys
    in a plain product: with S before G a decode step copies the whole cache first. windows: of the
    convolutions on q, k, v. position [B] int32: real tokens in the current document. last_id [B] int32.
    """

    keys: jax.Array
    values: jax.Array
    windows: tuple[jax.Array, ...]
    position: jax.Array
    last_id: jax.Array


LARGE_FIELDS = ("keys", "values")

# KVCache, or another state with keys, values, position and last_id as there.
Cache = TypeVar("Cache", bound=tuple)


def append(
    cache: Cache,
    k: jax.Array,
    v: jax.Array,
    places: jax.Array,
    segment_ids: jax.Array | None,
    *,
    ring: bool,
) -> Cache:
    """The cache after T more tokens, k [B, T, G, K] and v [B, T, G, V] at the positions `places` [B, T].

    Only tokens of each row's last document are written; those beyond the last slot are dropped: `overflow`.
    """
    slots, position = slots_for(places, cache.position, segment_ids, cache.keys.shape[2], ring=ring)
    return cache._replace(
        keys=written(cache.keys, k.swapaxes(1, 2), slots),
        values=written(cache.values, v.swapaxes(1, 2), slots),
        position=position,
        last_id=current_id(segment_ids, cache.last_id),
    )


def slots_for(
    places: jax.Array,
    position: jax.Array,
    segment_ids: jax.Array | None,
    capacity: int,
    *,
    ring: bool,
) -> tuple[jax.Array, jax.Array]:
    """([B, T] int32: the slots of tokens at `places` [B, T], `capacity` for those that are not kept, and
    [B] int32: `position`, the real tokens in each row's current document, after them).
    """
    position = current_position(segment_ids, position, places.shape[1])
    if segment_ids is None:
        kept = jnp.ones(places.shape, bool)
    else:
        order = segments.ordinals(segment_ids)
        kept = (segment_ids != 0) & (order == order[:, -1:])
    slots = places
    if ring:
        kept &= places >= position[:, None] - capacity
        slots = places % capacity
    return jnp.where(kept, slots, capacity), position


def written(array: jax.Array, new: jax.Array, slots: jax.Array) -> jax.Array:
    """array [B, G, S, K] with new [B, G, T, K] in its `slots` [B, T]; what is for slot S is dropped."""
    if slots.size == 1:
        # XLA would turn the scatter of a single update into a slice update and fuse that into each of its
        # readers, copying the whole cache for them. A second update, beyond the last slot, stops it.
        slots = jnp.concatenate([slots, jnp.full_like(slots, array.shape[2])], axis=1)
        new = jnp.concatenate([new, new], axis=2)
    rows = jnp.arange(array.shape[0])[:, None]
    return array.at[rows, :, slots].set(new.swapaxes(1, 2).astype(array.dtype), mode="drop")


def held(cache: Cache, *, ring: bool) -> tuple[jax.Array, jax.Array]:
    """([B, S] bool: which slots are in use, [B, S] int32: the positions of the tokens in them)."""
    slots = jnp.arange(cache.keys.shape[2], dtype=jnp.int32)[None, :]
    newest = cache.position[:, None] - 1
    if ring:
        places = newest - (newest - slots) % cache.keys.shape[2]
    else:
        places = jnp.broadcast_to(slots, (cache.position.shape[0], slots.shape[1]))
    return (places >= 0) & (places <= newest), places


def overflow(position: jax.Array, capacity: int, what: str = "key/value cache") -> jax.Array:
    """[B] bool: rows whose document, of `position` [B] tokens, no longer fits a cache for `capacity` tokens.

    Raises InputError with the numbers where they are known; compiled code cannot raise, and its caller turns
    these rows into NaN.
    """
    full = position > capacity
    if not isinstance(full, jax.core.Tracer) and full.any():
        row = int(np.argmax(full))
        raise InputError(
            f"The {what} has room for {capacity} tokens and row {row} would hold "
            f"{int(position[row])}; pass init_state a max_length that large."
        )
    return full
