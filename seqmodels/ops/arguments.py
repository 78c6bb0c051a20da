"""Arguments as arrays, and refusals of wrong ones, one sentence each, before anything is computed."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def as_arrays(*arguments: Any) -> tuple[Any, ...]:
    """numpy arrays as JAX arrays, in the widest dtype that JAX is set to; None stays None."""
    return jax.tree.map(jnp.asarray, arguments)


def require_array(op_name: str, name: str, array: Any, letters: str) -> None:
    """Raise ValueError where `array` is None, a list or a tuple; `letters` names its axes: "[B, T, H, K]"."""
    if not hasattr(array, "shape"):
        got = "None" if array is None else f"a {type(array).__name__}"
        raise ValueError(f"{op_name}: {name} is {got}, expected an array {letters}.")


def require_shape(op_name: str, name: str, array: jax.Array, letters: str, shape: tuple[int, ...]) -> None:
    """Raise ValueError unless `array` has `shape`; `letters` names its axes."""
    require_array(op_name, name, array, letters)
    if tuple(array.shape) != tuple(shape):
        got, want = tuple(array.shape), tuple(shape)
        raise ValueError(f"{op_name}: {name} has shape {got}, expected {letters} = {want}.")


def require_rank(op_name: str, name: str, array: jax.Array, letters: str) -> None:
    """Raise ValueError unless `array` has as many axes as `letters`, and at least one token on axis 1."""
    require_array(op_name, name, array, letters)
    rank = letters.count(",") + 1
    if array.ndim != rank or array.shape[1] < 1:
        raise ValueError(f"{op_name}: {name} has shape {tuple(array.shape)}, expected {letters} with T >= 1.")


def require_segment_ids(op_name: str, segment_ids: jax.Array | None, batch: int, length: int) -> None:
    """Raise ValueError unless `segment_ids` is None or an integer [B, T]."""
    if segment_ids is None:
        return
    require_shape(op_name, "segment_ids", segment_ids, "[B, T]", (batch, length))
    if not jnp.issubdtype(segment_ids.dtype, jnp.integer):
        raise ValueError(f"{op_name}: segment_ids is {segment_ids.dtype}, expected integers.")


def require_chunk_size(op_name: str, name: str, size: int) -> None:
    """Raise ValueError unless `size` is at least 1."""
    if size < 1:
        raise ValueError(f"{op_name}: {name} is {size}, expected at least 1.")


def require_scale(op_name: str, scale: Any) -> None:
    """Raise ValueError unless `scale` is None or one number, traced or not."""
    if scale is not None and np.shape(scale) != ():
        raise ValueError(f"{op_name}: scale has shape {np.shape(scale)}, expected one number.")


def scaled(q: jax.Array, scale: Any, dtype: Any) -> tuple[jax.Array, float]:
    """(q, scale), the scale a Python number, None being K**-0.5.

    An array, which may be traced, is multiplied into q in `dtype`: the bodies of scans with a gradient of
    their own close over no array.
    """
    if isinstance(scale, jax.Array):
        return q.astype(dtype) * scale.astype(dtype), 1.0
    return q, q.shape[-1] ** -0.5 if scale is None else float(scale)
