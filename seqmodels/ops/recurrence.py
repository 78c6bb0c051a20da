"""The elementwise linear recurrence h_t = a_t * h_{t-1} + x_t, and the composition of its steps."""

from functools import partial

import jax
import jax.numpy as jnp

from seqmodels.ops import segments
from seqmodels.ops.arguments import as_arrays, require_array, require_segment_ids, require_shape
from seqmodels.ops.methods import resolve
from seqmodels.ops.precision import sum_dtype

METHODS = ("sequential", "associative")


def linear_recurrence(
    a: jax.Array,
    x: jax.Array,
    *,
    initial_state: jax.Array | None = None,
    segment_ids: jax.Array | None = None,
    reverse: bool = False,
    method: str = "auto",
) -> tuple[jax.Array, jax.Array]:
    """h_t = a_t * h_{t-1} + x_t, elementwise; every document after the row's first starts from 0.

    Args:
      a: [B, T, *S] decays, real or complex.
      x: [B, T, *S] inputs, of the same rank; a and x are broadcast against each other.
      initial_state: [B, *S], of the document of the row's first real token; None: zeros.
      segment_ids: [B, T] int32, 0 for padding; None: one document, which continues `initial_state`.
      reverse: from the last token to the first; the state enters after the last and leaves at the first.
      method: "sequential" steps through time, "associative" is a tree of depth log T, "auto" the faster one.

    Returns:
      h [B, T, *S] in the dtype of x (complex where a is), at padding the carried state, and the final state
      [B, *S]. Sums and the final state are at least float32. The gradient keeps a and h alone.

    Raises:
      ValueError: for an unknown method and for shapes that do not fit.
    """
    a, x, initial_state, segment_ids = as_arrays(a, x, initial_state, segment_ids)
    for name, array in (("a", a), ("x", x)):
        require_array("linear_recurrence", name, array, "[B, T, *S]")
    if x.ndim < 2 or a.ndim != x.ndim:
        raise ValueError(f"linear_recurrence: a {a.shape} and x {x.shape} must have one rank, [B, T, *S].")
    try:
        shape = jnp.broadcast_shapes(a.shape, x.shape)
    except ValueError as error:
        raise ValueError(f"linear_recurrence: a {a.shape} and x {x.shape} do not broadcast.") from error
    batch, length = shape[:2]
    if length < 1:
        raise ValueError(f"linear_recurrence: x {x.shape} holds no token, expected [B, T, *S] with T >= 1.")
    require_segment_ids("linear_recurrence", segment_ids, batch, length)
    state_shape = (batch, *shape[2:])
    if initial_state is not None:
        require_shape("linear_recurrence", "initial_state", initial_state, "[B, *S]", state_shape)
    method = resolve("linear_recurrence", method, METHODS, length)

    dtype = sum_dtype(a.dtype, x.dtype)
    output = dtype if jnp.iscomplexobj(a) else x.dtype
    a = jnp.broadcast_to(a.astype(dtype), (a.shape[0], length, *a.shape[2:]))
    x = jnp.broadcast_to(x.astype(dtype), shape)
    state = jnp.zeros(state_shape, dtype) if initial_state is None else initial_state.astype(dtype)
    if segment_ids is None:
        h = _recurrence(a, x, state, None, method, reverse)
        return h.astype(output), h[:, 0 if reverse else -1]

    ids = segment_ids[:, ::-1] if reverse else segment_ids
    border = segments.starts(ids)
    border = _over_channels(border[:, ::-1] if reverse else border, x.ndim)
    real = _over_channels(segment_ids != 0, x.ndim)
    # -0.0, not 0.0: adding it keeps the bits of every number, the sign of a zero included.
    h = _recurrence(jnp.where(real, a, 1), jnp.where(real, x, -0.0), state, border, method, reverse)
    final = jnp.where(real.any(axis=1), h[:, 0 if reverse else -1], state)
    return h.astype(output), final


def compose(left, right):
    """The map h -> a h + x of `left` followed by that of `right`, for `jax.lax.associative_scan`.

    An element is (a, x), or (a, x, border) where a border forgets all before it: selected away rather than
    multiplied by 0, so that not even a sign of zero crosses it.
    """
    a_left, x_left, *border_left = left
    a_right, x_right, *border_right = right
    a, x = a_left * a_right, a_right * x_left + x_right
    if not border_right:
        return a, x
    border = border_right[0]
    return a, jnp.where(border, x_right, x), border_left[0] | border


def _over_channels(mask: jax.Array, rank: int) -> jax.Array:
    return mask.reshape(*mask.shape, *(1,) * (rank - 2))


@partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def _recurrence(a, x, state, border, method, reverse):
    """All h [B, T, *S]; a [1 or B, T, *broadcastable], border None or bool [B, T, 1...]."""
    if method == "step":
        return a * state[:, None] + x
    if method == "sequential":
        return _scan(a, x, state, border, reverse)
    first = -1 if reverse else 0
    x = x.at[:, first].add(a[:, first] * state)
    elements = (a, x) if border is None else (a, x, border)
    return jax.lax.associative_scan(compose, elements, reverse=reverse, axis=1)[1]


def _scan(a, x, state, border, reverse):
    def step(h, token):
        a, x, *border = token
        h = jnp.where(border[0], x, a * h + x) if border else a * h + x
        return h, h

    elements = (a, x) if border is None else (a, x, border)
    tokens = tuple(jnp.moveaxis(element, 1, 0) for element in elements)
    return jnp.moveaxis(jax.lax.scan(step, state, tokens, reverse=reverse)[1], 0, 1)


def _forward(a, x, state, border, method, reverse):
    h = _recurrence(a, x, state, border, method, reverse)
    return h, (a, h, state, border)


def _backward(method, reverse, residuals, cotangent):
    """dx_t = dh_t + a_{t+1} dx_{t+1}, the same recurrence run the other way; da_t = dx_t h_{t-1}."""
    a, h, state, border = residuals

    def against_time(array, edge):
        """Element t of the result is element t + 1 of `array`, in the direction of the recurrence."""
        return jnp.concatenate([edge, array[:, :-1]] if reverse else [array[:, 1:], edge], axis=1)

    after = against_time(a, jnp.zeros_like(a[:, :1]))
    border_after = None if border is None else against_time(border, jnp.zeros_like(border[:, :1]))
    edge = jnp.zeros_like(state)
    dx = _recurrence(after, cotangent, edge, border_after, method, not reverse)
    entering = state[:, None]
    before = jnp.concatenate([h[:, 1:], entering] if reverse else [entering, h[:, :-1]], axis=1)
    da = dx * before
    dstate = (dx * a)[:, -1 if reverse else 0]
    if border is not None:
        da = jnp.where(border, 0, da)
    axes = tuple(axis for axis, (of_a, of_h) in enumerate(zip(a.shape, h.shape, strict=True)) if of_a != of_h)
    da = da.sum(axis=axes, keepdims=True) if axes else da
    return da, dx, dstate, None


_recurrence.defvjp(_forward, _backward)
