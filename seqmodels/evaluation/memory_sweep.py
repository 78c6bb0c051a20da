"""One pass over rows through an unrolled model: what each layer's memory multiplies its state by, and what
each layer and the whole model still feel of a token some way back.

Compiled once a shape. Sums over tokens are taken inside, so that no log-decay of a whole row leaves it.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from seqmodels.evaluation.memory_rows import MemoryRows
from seqmodels.evaluation.scorer import in_flight

# A factor below float32's smallest normal number leaves nothing; its log is taken to be that number's, so
# that sums and means stay finite.
LOWEST = float(np.log(np.finfo(np.float32).tiny))
# The state of the widest mixers has thousands of numbers a token, each with a log-decay.
ROWS_AT_ONCE = 8


class LayerSweep(NamedTuple):
    """Of one layer, [R, ...] float32.

    sums: of log-decays over the tokens of each kind, by name [R, kinds, units]; empty where nothing fades.
    shapes: the units of each as they stand in the mixer. survival: [R, lags], the sum over tokens of what is
    left, on average over units, after 1, 2, 4, ... tokens, and counts: [R, lags], how many. response: [R, T],
    ‖∂(r·y_last)/∂x_t‖ of the mixer's output and input, r normal.
    """

    sums: dict[str, np.ndarray]
    shapes: dict[str, tuple[int, ...]]
    survival: np.ndarray
    counts: np.ndarray
    response: np.ndarray


class Sweep(NamedTuple):
    """layers; counts: [R, kinds] tokens of each kind; response: [R, T], that of the last layer's normalised
    output to the embedded tokens.
    """

    layers: list[LayerSweep]
    counts: np.ndarray
    response: np.ndarray


def sweep(model, rows: MemoryRows, batch_size: int) -> Sweep:
    """Of all rows; the same figures for any batch_size."""
    graphdef, params = nnx.split(model, nnx.Param)
    count, size = len(rows.tokens), min(batch_size, ROWS_AT_ONCE)
    one_hot = (rows.kind[..., None] == np.arange(len(rows.kinds))).astype(np.float32)

    def batches():
        for first in range(0, count, size):
            # Filled up with the last row, which is then dropped: one shape, one compilation.
            index = np.minimum(np.arange(first, first + size), count - 1)
            arrays = (rows.tokens, rows.segment_ids, rows.last, one_hot, np.arange(count, dtype=np.int32))
            yield _sweep(graphdef, params, *(array[index] for array in arrays)), min(size, count - first)

    made = in_flight(batches(), count, size)
    kept = [jax.tree.map(lambda leaf, n=n: leaf[:n], result) for result, n in made]
    layers, response = jax.tree.map(lambda *leaves: np.concatenate(leaves), *kept)
    return Sweep([_layer(*layer) for layer in layers], one_hot.sum(axis=1), response)


def _layer(sums, survival, counts, response):
    shapes = {name: values.shape[2:] for name, values in sums.items()}
    flat = {name: values.reshape(*values.shape[:2], -1) for name, values in sums.items()}
    return LayerSweep(flat, shapes, survival, counts, response)


@partial(jax.jit, static_argnums=0)
def _sweep(graphdef, params, tokens, segment_ids, last, one_hot, number):
    """([(sums, survival, counts, response) a layer], response); `number` names each row."""
    model = nnx.merge(graphdef, params)
    blocks = [model.layers.block(layer) for layer in range(model.layers.depth)]
    embedded = model.embed(tokens, segment_ids, jnp.zeros_like(number))
    seen = _Seen(last, _directions(number, embedded.shape[-1]))
    x, layers = embedded, []
    for block in blocks:
        inner = block.mixer_norm(x)
        decays = block.mixer.log_decays(inner, segment_ids=segment_ids)
        decays = {name: jnp.maximum(g, LOWEST) for name, g in decays.items()}
        sums = {name: jnp.einsum("btk,bt...->bk...", one_hot, g) for name, g in decays.items()}
        response = seen.response(lambda y, block=block: block.mixer(y, segment_ids=segment_ids)[0], inner)
        layers.append((sums, *_survival(principal(decays), segment_ids != 0), response))
        x, _ = block(x, segment_ids=segment_ids, state=None, key=None)

    def whole(x):
        for block in blocks:
            x, _ = block(x, segment_ids=segment_ids, state=None, key=None)
        return model.final_norm(x)

    return layers, seen.response(whole, embedded)


def principal(by_name: dict):
    """What tells how the state fades as a whole: along a random direction, or by its gates; None: nothing."""
    return by_name.get("random", by_name.get("gate"))


def _directions(number, width):
    """[R, D] normal numbers of each row's own, whatever batch it stands in."""
    keys = jax.vmap(partial(jax.random.fold_in, jax.random.key(0)))(number)
    return jax.vmap(lambda key: jax.random.normal(key, (width,)))(keys)


class _Seen(NamedTuple):
    """What outputs are projected on: `direction` [B, D] at position `last` [B]."""

    last: jax.Array
    direction: jax.Array

    def response(self, function, x):
        """[B, T] float32: the length of the gradient of the projected output to each x [B, T, D]."""
        y, pull = jax.vjp(function, x)
        here = jnp.arange(y.shape[1])[None, :] == self.last[:, None]
        projected = jnp.where(here[..., None], self.direction[:, None], 0).astype(y.dtype)
        return jnp.linalg.norm(pull(projected)[0].astype(jnp.float32), axis=-1)


def _survival(g, real):
    """(sums, counts) [B, lags] over the places whose next 1, 2, 4, ... tokens lie in the row."""
    left, counts = [], []
    lag, window = 1, None if g is None else g.reshape(*g.shape[:2], -1)
    while window is not None and lag <= real.shape[1]:
        within = real[:, : window.shape[1]] & real[:, lag - 1 :]
        left.append(jnp.where(within, jnp.exp(window).mean(axis=-1), 0).sum(axis=1))
        counts.append(within.sum(axis=1).astype(jnp.float32))
        # Sums of twice as many tokens from two sums: the difference of two cumulative sums would cancel.
        window = window[:, :-lag] + window[:, lag:]
        lag *= 2
    empty = jnp.zeros((real.shape[0], 0), jnp.float32)
    return (jnp.stack(left, axis=1), jnp.stack(counts, axis=1)) if left else (empty, empty)
