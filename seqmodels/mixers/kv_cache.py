"""The key/value cache of softmax attention, as a state: preallocated, packed, written in place.

It holds the tokens of each row's current document alone, without padding, in slot = position; a ring buffer
of the window's size holds position p in slot p mod window and is never full. A new document starts again at
slot 0, and what an older one left in the slots is not read, because `position` says how many are in use.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from seqmodels.errors import InputError
from seqmodels.mixers.base import current_id
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


def positions(cache: KVCache, segment_ids: jax.Array | None, length: int) -> jax.Array:
    """[B, T] int32: the position in its document of each of the `length` tokens that follow the cache."""
    if segment_ids is None:
        return cache.position[:, None] + jnp.arange(length, dtype=jnp.int32)[None, :]
    return segments.positions(segment_ids, cache.position)


def append(
    cache: KVCache,
    k: jax.Array,
    v: jax.Array,
    places: jax.Array,
    segment_ids: jax.Array | None,
    *,
    ring: bool,
) -> KVCache:
    """The cache after T more tokens, k [B, T, G, K] and v [B, T, G, V] at the positions `places` [B, T].

    Only tokens of each row's last document are written; those beyond the last slot are dropped: `overflow`.
    """
    batch, length = places.shape
    slots_in_all = cache.keys.shape[2]
    if segment_ids is None:
        kept = jnp.ones((batch, length), bool)
        position = cache.position + length
    else:
        order = segments.ordinals(segment_ids)
        kept = (segment_ids != 0) & (order == order[:, -1:])
        position = segments.last_count(segment_ids, cache.position)
    slots = places
    if ring:
        kept &= places >= position[:, None] - slots_in_all
        slots = places % slots_in_all
    slots = jnp.where(kept, slots, slots_in_all)
    if batch * length == 1:
        # XLA would turn the scatter of a single update into a slice update and fuse that into each of its
        # readers, copying the whole cache for them. A second update, beyond the last slot, stops it.
        slots = jnp.concatenate([slots, jnp.full_like(slots, slots_in_all)], axis=1)
        k, v = (jnp.concatenate([new, new], axis=1) for new in (k, v))
    rows = jnp.arange(batch)[:, None]
    return KVCache(
        cache.keys.at[rows, :, slots].set(k.astype(cache.keys.dtype), mode="drop"),
        cache.values.at[rows, :, slots].set(v.astype(cache.values.dtype), mode="drop"),
        cache.windows,
        position,
        current_id(segment_ids, cache.last_id),
    )


def held(cache: KVCache, *, ring: bool) -> tuple[jax.Array, jax.Array]:
    """([B, S] bool: which slots are in use, [B, S] int32: the positions of the tokens in them)."""
    slots = jnp.arange(cache.keys.shape[2], dtype=jnp.int32)[None, :]
    newest = cache.position[:, None] - 1
    if ring:
        places = newest - (newest - slots) % cache.keys.shape[2]
    else:
        places = jnp.broadcast_to(slots, (cache.position.shape[0], slots.shape[1]))
    return (places >= 0) & (places <= newest), places


def overflow(cache: KVCache) -> jax.Array:
    """[B] bool: rows whose document no longer fits a cache that is no ring buffer.

    Raises InputError with the numbers where they are known; compiled code cannot raise, and its caller turns
    these rows into NaN.
    """
    capacity = cache.keys.shape[2]
    full = cache.position > capacity
    if not isinstance(full, jax.core.Tracer) and full.any():
        row = int(np.argmax(full))
        raise InputError(
            f"The key/value cache has room for {capacity} tokens and row {row} would hold "
            f"{int(cache.position[row])}; pass init_state a max_length that large."
        )
    return full
