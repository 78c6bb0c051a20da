"""One scan over tokens, the plainest form of every op whose state is a matrix."""

import jax
import jax.numpy as jnp


def scan_tokens(body, state, tokens, order):
    """Fold `body(state, token) -> (state, output)` over a tree of arrays [1 or B, T, ...].

    order: [B, T], the ordinals of documents, or None; before the first token of each but the row's first the
    state, [B, H, K, V], is emptied. Returns outputs [B, T, ...] and the last state.
    """
    borders = None if order is None else jnp.diff(order, axis=1, prepend=0) > 0

    def step(state, position):
        token, border = position
        if border is not None:
            state = jnp.where(border[:, None, None, None], 0, state)
        return body(state, token)

    positions = jax.tree.map(lambda array: jnp.moveaxis(array, 1, 0), (tokens, borders))
    state, outputs = jax.lax.scan(step, state, positions)
    return jnp.moveaxis(outputs, 0, 1), state
