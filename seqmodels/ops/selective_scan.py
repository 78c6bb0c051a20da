"""Mamba's recurrence: a diagonal state space whose step, input and output maps depend on the token.

    h_t = exp(dt_t A) h_{t-1} + dt_t B_t x_t,   y_t = C_t . h_t + D x_t        (Gu and Dao 2023, section 3)

with h [E, N]: each of E channels keeps N numbers. Inside, the state lies as [B, N, E]: E last fills the
vector lanes, which halves the time.
"""

import functools

import jax
import jax.numpy as jnp

from seqmodels.ops import segments
from seqmodels.ops.arguments import (
    as_arrays,
    require_array,
    require_chunk_size,
    require_rank,
    require_segment_ids,
    require_shape,
)
from seqmodels.ops.methods import resolve
from seqmodels.ops.precision import sum_dtype
from seqmodels.ops.recurrence import compose
from seqmodels.ops.selective_scan_chunked import chunked

METHODS = ("sequential", "associative", "chunked")


def selective_scan(
    x: jax.Array,
    dt: jax.Array,
    A: jax.Array,
    B: jax.Array,
    C: jax.Array,
    D: jax.Array | None = None,
    *,
    initial_state: jax.Array | None = None,
    segment_ids: jax.Array | None = None,
    method: str = "auto",
    chunk_size: int = 32,
) -> tuple[jax.Array, jax.Array]:
    """Runs the recurrence over time.

    Args:
      x: [B, T, E] inputs.
      dt: [B, T, E] step sizes, already positive.
      A: [E, N] rates, negative.
      B: [B, T, N] input maps.
      C: [B, T, N] output maps.
      D: [E] direct path from x to y; None: none.
      initial_state: [B, E, N], of the document of the row's first real token; None: zeros.
      segment_ids: [B, T] int32, 0 for padding; None: one document, which continues `initial_state`.
      method: "sequential" steps through time, "associative" holds [B, T, E, N], "chunked" keeps the states at
        chunk borders alone and recomputes the others in its gradient, "auto" takes the fastest.
      chunk_size: tokens a chunk of "chunked".

    Returns:
      y [B, T, E] in the dtype of x, and the state [B, E, N] float32 after the last real token of the row's
      last document. States, decays and sums are float32.

    Raises:
      ValueError: for an unknown method and for shapes or settings that do not fit, naming both.
    """
    x, dt, A, B, C, D, initial_state, segment_ids = as_arrays(x, dt, A, B, C, D, initial_state, segment_ids)
    _check(x, dt, A, B, C, D, initial_state, segment_ids)
    require_chunk_size("selective_scan", "chunk_size", chunk_size)
    method = resolve("selective_scan", method, METHODS, x.shape[1])
    batch, length, width = x.shape
    output, dtype = x.dtype, sum_dtype(x.dtype)
    x, dt, A, B, C = (array.astype(dtype) for array in (x, dt, A.T, B, C))
    if initial_state is None:
        initial_state = jnp.zeros((batch, width, A.shape[0]), dtype)
    initial_state = initial_state.astype(dtype)
    start = jnp.zeros((batch, length), bool)
    if segment_ids is not None:
        # With dt = 0 a token neither decays the state nor adds to it.
        real = (segment_ids != 0)[:, :, None]
        x, dt, C = (jnp.where(real, array, 0.0) for array in (x, dt, C))
        start = segments.starts(segment_ids)
    forms = {
        "step": _step,
        "sequential": _sequential,
        "associative": _associative,
        "chunked": functools.partial(chunked, chunk_size=chunk_size),
    }
    y, state = forms[method](x, dt, A, B, C, start, initial_state.swapaxes(1, 2))
    if D is not None:
        y = y + D.astype(dtype)[None, None, :] * x
    state = state.swapaxes(1, 2)
    if segment_ids is not None:
        state = jnp.where((segment_ids != 0).any(axis=1)[:, None, None], state, initial_state)
    return y.astype(output), state


def _update(h, x, dt, A, B, start):
    """The state [B, N, E] after one token: x, dt [B, E], A [N, E], B [B, N], start [B]."""
    kept = jnp.where(start[:, None, None], 0.0, jnp.exp(dt[:, None, :] * A[None]) * h)
    return kept + B[:, :, None] * (dt * x)[:, None, :]


def _step(x, dt, A, B, C, start, h):
    """One token, T = 1, without a loop."""
    h = _update(h, x[:, 0], dt[:, 0], A, B[:, 0], start[:, 0])
    return jnp.einsum("bn,bne->be", C[:, 0], h)[:, None], h


def _sequential(x, dt, A, B, C, start, h):
    """Token after token."""

    def token(h, inputs):
        x, dt, B, C, start = inputs
        h = _update(h, x, dt, A, B, start)
        return h, jnp.einsum("bn,bne->be", C, h)

    h, y = jax.lax.scan(token, h, tuple(v.swapaxes(0, 1) for v in (x, dt, B, C, start)))
    return y.swapaxes(0, 1), h


def _associative(x, dt, A, B, C, start, h):
    """All states at once, by a tree of depth log T."""
    decay = jnp.exp(dt[:, :, None, :] * A[None, None])
    added = B[:, :, :, None] * (dt * x)[:, :, None, :]
    added = added.at[:, 0].add(decay[:, 0] * h)  # the first token of a row is no start
    states = jax.lax.associative_scan(compose, (decay, added, start[:, :, None, None]), axis=1)[1]
    return jnp.einsum("btn,btne->bte", C, states), states[:, -1]


def _check(x, dt, A, B, C, D, initial_state, segment_ids):
    """Raises ValueError for the first array whose shape does not fit the others."""
    name = "selective_scan"
    require_rank(name, "x", x, "[B, T, E]")
    batch, length, width = x.shape
    require_array(name, "A", A, "[E, N]")
    if A.ndim != 2 or A.shape[0] != width:
        raise ValueError(f"{name}: A has shape {A.shape}, expected [E, N] with E = {width}.")
    size = A.shape[1]
    for which, array, letters, shape in (
        ("dt", dt, "[B, T, E]", (batch, length, width)),
        ("B", B, "[B, T, N]", (batch, length, size)),
        ("C", C, "[B, T, N]", (batch, length, size)),
        ("D", D, "[E]", (width,)),
        ("initial_state", initial_state, "[B, E, N]", (batch, width, size)),
    ):
        if array is not None or which in ("dt", "B", "C"):
            require_shape(name, which, array, letters, shape)
    require_segment_ids(name, segment_ids, batch, length)
