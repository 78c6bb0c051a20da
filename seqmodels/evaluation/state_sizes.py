"""How large each layer's state is at a length, and the formula of its size, both from `init_state` itself."""

from collections import Counter
from typing import NamedTuple

import jax
import jax.numpy as jnp

from seqmodels.accounting import tree_bytes


class StateSize(NamedTuple):
    """Of one row that holds `length` tokens.

    elements: floating-point numbers, convolution windows and normalisers included. bytes: of them, and of
    the row's counters. formula: the elements, field by field, with L for the length. grows: with the length.
    window: tokens that the widest short convolution keeps.
    """

    length: int
    elements: int
    bytes: int
    formula: str
    grows: bool
    window: int

    def summary(self) -> dict:
        return self._asdict()


def state_size(mixer, length: int, dtype) -> StateSize:
    """The state of a mixer (shapes are enough) at a length; caches and windows in `dtype`."""
    leaves, doubled = (_floating(mixer, tokens, dtype) for tokens in (length, 2 * length))
    terms = Counter(
        (
            name,
            " · ".join(
                _dimension(n, m, length) for n, m in zip(leaf.shape[1:], other.shape[1:], strict=True)
            ),
        )
        for (name, leaf), (_, other) in zip(leaves, doubled, strict=True)
    )
    formula = " + ".join(
        f"{name} {dims}" if times == 1 else f"{name} {times} × {dims}"
        for (name, dims), times in terms.items()
    )
    windows = [leaf.shape[1] for name, leaf in leaves if name in ("window", "windows")]
    return StateSize(
        length=length,
        elements=sum(leaf.size for _, leaf in leaves),
        bytes=tree_bytes(jax.eval_shape(lambda: mixer.init_state(1, length, dtype))),
        formula=formula,
        grows=any(leaf.shape != other.shape for (_, leaf), (_, other) in zip(leaves, doubled, strict=True)),
        window=max(windows, default=0),
    )


def _floating(mixer, length, dtype):
    """[(field, shape)] of the floating-point leaves, those inside a field under its name."""
    state = jax.eval_shape(lambda: mixer.init_state(1, length, dtype))
    return [
        (".".join(key.name for key in path if hasattr(key, "name")), leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(state)
        if jnp.issubdtype(leaf.dtype, jnp.floating)
    ]


def _dimension(size, doubled, length):
    """A dimension as it stands in a formula, from its size at a length and at twice that."""
    if size == doubled:
        return str(size)
    return "L" if size == length else f"L/{round(length / size)}"
