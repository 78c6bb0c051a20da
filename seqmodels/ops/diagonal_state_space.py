"""A diagonal complex state space for each channel, as a recurrence or as a convolution.

    h_t = exp(rate) h_{t-1} + x_t,   y_t = 2 Re(C . h_t)        (Gu et al. 2022, S4D, section 3)

with h [D, N]. Since nothing depends on the token, y is also x convolved with K_j = 2 Re(C . exp(j rate)).
"""

import jax
import jax.numpy as jnp

from seqmodels.ops import segments
from seqmodels.ops.arguments import (
    as_arrays,
    require_array,
    require_rank,
    require_segment_ids,
    require_shape,
)
from seqmodels.ops.long_convolution import long_convolution
from seqmodels.ops.methods import resolve
from seqmodels.ops.packing import packing, permuted
from seqmodels.ops.recurrence import linear_recurrence

METHODS = ("sequential", "associative", "convolution")
CHUNK = 64  # powers are products of one of exp(rate)'s first CHUNK powers and one of exp(CHUNK rate)'s


def diagonal_state_space(
    x: jax.Array,
    rate: jax.Array,
    C: jax.Array,
    *,
    initial_state: jax.Array | None = None,
    segment_ids: jax.Array | None = None,
    method: str = "auto",
) -> tuple[jax.Array, jax.Array]:
    """Runs every channel's state space over time.

    Args:
      x: [B, T, D] inputs.
      rate: [D, N] complex log-decays, of negative real part.
      C: [D, N] complex output maps.
      initial_state: [B, D, N] complex, of the document of the row's first real token; None: zeros.
      segment_ids: [B, T] int32, 0 for padding; None: one document, which continues `initial_state`.
      method: "sequential" and "associative" hold all states, [B, T, D, N]; "convolution" none but the last;
        "auto" takes the fastest.

    Returns:
      y [B, T, D] in the dtype of x, and the state [B, D, N] complex64 after the last real token of the row's
      last document.

    Raises:
      ValueError: for an unknown method and for shapes that do not fit.
    """
    x, rate, C, initial_state, segment_ids = as_arrays(x, rate, C, initial_state, segment_ids)
    name = "diagonal_state_space"
    require_rank(name, "x", x, "[B, T, D]")
    batch, length, width = x.shape
    require_array(name, "rate", rate, "[D, N]")
    if rate.ndim != 2 or rate.shape[0] != width:
        raise ValueError(f"{name}: rate has shape {rate.shape}, expected [D, N] with D = {width}.")
    state_shape = (batch, *rate.shape)
    require_shape(name, "C", C, "[D, N]", rate.shape)
    if initial_state is not None:
        require_shape(name, "initial_state", initial_state, "[B, D, N]", state_shape)
    require_segment_ids(name, segment_ids, batch, length)
    method = resolve(name, method, METHODS, length)
    wide = x.astype(rate.real.dtype)
    if method == "convolution":
        y, state = _convolution(wide, rate, C, initial_state, segment_ids)
        return y.astype(x.dtype), state
    if initial_state is None:
        initial_state = jnp.zeros(state_shape, rate.dtype)
    if method == "step":
        h = _step(wide[:, 0], rate, initial_state.astype(rate.dtype), segment_ids)
        return _read(C[None], h)[:, None].astype(x.dtype), h
    h, state = linear_recurrence(
        _exp(rate)[None, None],
        wide[..., None].astype(rate.dtype),
        initial_state=initial_state,
        segment_ids=segment_ids,
        method=method,
    )
    return _read(C[None, None], h).astype(x.dtype), state


def _exp(z):
    """exp(z), in fewer operations than XLA's own for complex numbers."""
    size = jnp.exp(z.real)
    return jax.lax.complex(size * jnp.cos(z.imag), size * jnp.sin(z.imag))


def _step(x, rate, h, segment_ids):
    """The state [B, D, N] after one token, x [B, D], in real arithmetic; the row's only document goes on."""
    decay = _exp(rate)[None]
    (a, b), (real, imaginary) = ((z.real, z.imag) for z in (decay, h))
    real, imaginary = a * real - b * imaginary + x[:, :, None], a * imaginary + b * real
    return segments.kept_by_padding(segment_ids, h, jax.lax.complex(real, imaginary))


def _read(C, h):
    """2 Re(C . h) over the last axis, in real products."""
    return 2.0 * (C.real * h.real - C.imag * h.imag).sum(axis=-1)


def _convolution(x, rate, C, initial_state, segment_ids):
    """y [B, T, D] and the final state; without segment_ids, every token is of one document."""
    batch, length, _ = x.shape
    y = long_convolution(x, _fading(C[None], rate, length)[0], segment_ids=segment_ids)
    if segment_ids is None:
        state = _sum_of_fading(x, rate)
        count = jnp.full(batch, length)
    else:
        real = segment_ids != 0
        order = segments.ordinals(segment_ids)
        of_last = real & (order == order[:, -1:])
        # With the padding in front, the last document's tokens stand at the end of every row.
        last = permuted(jnp.where(of_last[..., None], x, 0), *packing(~real))
        state = _sum_of_fading(last, rate)
        count = real.sum(axis=1)
    if initial_state is None:
        return y, state
    entered = initial_state.astype(rate.dtype)
    of_first = _fading((C * _exp(rate))[None] * entered, rate, length)
    remains = _exp(_times(count[:, None, None], rate[None])) * entered
    if segment_ids is not None:
        front, back = packing(real)
        of_first = jnp.where((real & (order == 0))[..., None], permuted(of_first, back, front), 0)
        remains = jnp.where((order[:, -1] == 0)[:, None, None], remains, 0)
    return y + of_first, segments.kept_by_padding(segment_ids, entered, state + remains)


def _fading(start, rate, length):
    """2 Re(start exp(t rate)) summed over N for t = 0 .. length - 1: start [B, D, N] -> [B, length, D]."""
    inner, outer = _powers(rate, length)
    chunks = start[:, None] * outer[None]
    real = jnp.einsum("bpdn,qdn->bpqd", chunks.real, inner.real)
    imaginary = jnp.einsum("bpdn,qdn->bpqd", chunks.imag, inner.imag)
    return 2.0 * (real - imaginary).reshape(start.shape[0], -1, start.shape[1])[:, :length]


def _sum_of_fading(x, rate):
    """The sum of exp((T - 1 - t) rate) x_t over time: x [B, T, D] -> [B, D, N]."""
    batch, length, width = x.shape
    inner, outer = _powers(rate, length)
    x = jnp.pad(x, ((0, 0), (len(inner) * len(outer) - length, 0), (0, 0)))
    x = x.reshape(batch, len(outer), len(inner), width)
    real, imaginary = (jnp.einsum("bpqd,qdn->bpdn", x, part[::-1]) for part in (inner.real, inner.imag))
    return (jax.lax.complex(real, imaginary) * outer[None, ::-1]).sum(axis=1)


def _powers(rate, length):
    """exp(q rate) [Q, D, N] and exp(Q p rate) [P, D, N]: their products are P Q >= length powers in turn."""
    inner = min(CHUNK, length)
    outer = inner * jnp.arange(-(-length // inner))
    return tuple(_exp(_times(count[:, None, None], rate[None])) for count in (jnp.arange(inner), outer))


def _times(count, rate):
    """A whole number times a complex one, broadcast."""
    count = count.astype(rate.real.dtype)
    return jax.lax.complex(count * rate.real, count * rate.imag)
