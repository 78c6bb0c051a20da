"""Mamba's recurrence: a diagonal state space whose step, input and output maps depend on the token.

    h_t = exp(dt_t A) h_{t-1} + dt_t B_t x_t,   y_t = C_t . h_t + D x_t        (Gu and Dao 2023, section 3)

with h [E, N]: each of E channels keeps N numbers. Inside, the state lies as [B, N, E]: E last fills the
vector lanes, which halves the time.
"""

import functools

import jax
import jax.numpy as jnp

from seqmodels.ops import segments
from seqmodels.ops.methods import resolve
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
    _check(x, dt, A, B, C, D, initial_state, segment_ids)
    if chunk_size < 1:
        raise ValueError(f"selective_scan: chunk_size is {chunk_size}; it must be at least 1.")
    method = resolve("selective_scan", method, METHODS, x.shape[1])
    batch, length, width = x.shape
    wide = (v.astype(jnp.float32) for v in (x, dt, A.T, B, C))
    x32, dt32, A32, B32, C32 = wide
    if initial_state is None:
        initial_state = jnp.zeros((batch, width, A.shape[1]), jnp.float32)
    initial_state = initial_state.astype(jnp.float32)
    start = jnp.zeros((batch, length), bool)
    if segment_ids is not None:
        # With dt = 0 a token neither decays the state nor adds to it.
        real = (segment_ids != 0)[:, :, None]
        dt32, x32, C32 = (jnp.where(real, v, 0.0) for v in (dt32, x32, C32))
        start = segments.starts(segment_ids)
    forms = {
        "step": _step,
        "sequential": _sequential,
        "associative": _associative,
        "chunked": functools.partial(chunked, chunk_size=chunk_size),
    }
    y, state = forms[method](x32, dt32, A32, B32, C32, start, initial_state.swapaxes(1, 2))
    if D is not None:
        y = y + D.astype(jnp.float32)[None, None, :] * x32
    state = state.swapaxes(1, 2)
    if segment_ids is not None:
        state = jnp.where((segment_ids != 0).any(axis=1)[:, None, None], state, initial_state)
    return y.astype(x.dtype), state


def _update(h, x, dt, A, B, start):
    """The state [B, N, E] after one token: x, dt [B, E], A [N, E], B [B, N], start [B]."""
    decay = jnp.where(start[:, None, None], 0.0, jnp.exp(dt[:, None, :] * A[None]))
    return decay * h + B[:, :, None] * (dt * x)[:, None, :]


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
    decay = jnp.where(start[:, :, None, None], 0.0, jnp.exp(dt[:, :, None, :] * A[None, None]))
    added = B[:, :, :, None] * (dt * x)[:, :, None, :]
    added = added.at[:, 0].add(decay[:, 0] * h)

    def compose(first, second):
        return first[0] * second[0], second[0] * first[1] + second[1]

    _, states = jax.lax.associative_scan(compose, (decay, added), axis=1)
    return jnp.einsum("btn,btne->bte", C, states), states[:, -1]


def _check(x, dt, A, B, C, D, initial_state, segment_ids):
    """Raises ValueError for the first array whose shape does not fit the others."""

    def refuse(name, array, wanted):
        raise ValueError(f"selective_scan: {name} has shape {list(array.shape)}; it must be {wanted}.")

    if x.ndim != 3:
        refuse("x", x, "[batch, time, channels]")
    if A.ndim != 2 or A.shape[0] != x.shape[2]:
        refuse("A", A, f"[{x.shape[2]}, N], as x is {list(x.shape)}")
    batch, length, width = x.shape
    size = A.shape[1]
    for name, array, shape in (
        ("dt", dt, (batch, length, width)),
        ("B", B, (batch, length, size)),
        ("C", C, (batch, length, size)),
        ("D", D, (width,)),
        ("initial_state", initial_state, (batch, width, size)),
        ("segment_ids", segment_ids, (batch, length)),
    ):
        if array is not None and array.shape != shape:
            refuse(name, array, f"{list(shape)}, as x is {list(x.shape)} and A {list(A.shape)}")
