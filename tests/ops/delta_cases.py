"""Inputs of the delta rule and of diagonal plus low-rank transitions, and their comparison with the loops."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from seqmodels.ops import delta_rule, dplr
from tests.ops import delta_reference
from tests.ops.reference_loops import random_segment_ids

LENGTHS = (1, 2, 3, 7, 16, 63, 64, 65, 129)
CHUNKS = (1, 16, 64)
DECAYS = ("none", "head", "token", "channel")
STRENGTHS = (0.0, -1e-6, -1.0, -50.0, -1e4)
SHARES = (0.0, 0.5, 1.0, 2.0)
HEADS, WIDTH, VALUES = 2, 8, 12  # K != V on purpose
OPS = {"delta_rule": delta_rule, "dplr": dplr}


def decays(kind, length):
    """One a row: the strengths of STRENGTHS, one -1e4 among -0.3, 0 and -8 by turns; "head": one for all."""
    if kind == "none":
        return None
    if kind == "head":
        return np.array([-0.3, -1e4], np.float32)
    rows = [np.full(length, g) for g in STRENGTHS]
    rows.append(np.where(np.arange(length) == length // 2, -1e4, -0.3))
    rows.append(np.where(np.arange(length) % 2, -8.0, 0.0))
    rows = np.stack(rows).astype(np.float32)
    if kind == "token":
        return np.repeat(rows[..., None], HEADS, axis=2)
    # Channels of one token differ, the strengths turning from channel to channel.
    turned = np.stack([np.roll(rows, channel, axis=0) for channel in range(WIDTH)], axis=-1)
    return np.repeat(turned[:, :, None], HEADS, axis=2)


def unit(array):
    return array / np.linalg.norm(array, axis=-1, keepdims=True)


def inputs(op, rng, kind, length):
    """Arguments by name; a row of the batch for every pair of a decay with a share of SHARES."""
    g = decays(kind, length)
    count = len(g) if g is not None and g.ndim > 1 else 1
    shares = np.repeat(np.array(SHARES), count)
    shape = (len(shares), length, HEADS, WIDTH)
    q, k, a = rng.normal(size=shape), rng.normal(size=shape), unit(rng.normal(size=shape))
    share = np.broadcast_to(shares[:, None, None], shape[:3])
    arrays = {"q": q, "v": rng.normal(size=(*shape[:3], VALUES))}
    if op == "delta_rule":
        arrays |= {"k": unit(k), "beta": share}
    else:
        arrays |= {"k": k, "a": -a, "b": a * share[..., None]}
    arrays["initial_state"] = rng.normal(size=(len(shares), HEADS, WIDTH, VALUES))
    if g is not None:
        arrays["log_decay"] = np.concatenate([g] * len(SHARES)) if g.ndim > 1 else g
    return {name: np.asarray(array, np.float32) for name, array in arrays.items()}


@functools.partial(jax.jit, static_argnames=("op", "method", "chunk_size"))
def pulled_back(arrays, segment_ids, cotangents, *, op, method, chunk_size):
    """(o, final state) and the cotangents pulled back to the arguments."""

    def run(arrays):
        return OPS[op](**arrays, segment_ids=segment_ids, method=method, chunk_size=chunk_size)

    values, pullback = jax.vjp(run, arrays)
    return values, pullback(cotangents)[0]


def against_the_loop(op, method, length, chunk, kind, packed, dtype):
    """Outputs, the final state and every gradient, row by row of the batch."""
    rng = np.random.default_rng(length * 100 + chunk)
    arrays = inputs(op, rng, kind, length)
    halved = {"q", "k", "v", "a", "b"} & set(arrays)
    arrays |= {name: np.asarray(jnp.asarray(arrays[name], dtype)) for name in halved}
    ids = random_segment_ids(rng, len(arrays["q"]), length) if packed else None
    compared(op, arrays, ids, rng, method=method, chunk_size=chunk)


def compared(op, arrays, ids, rng, **options):
    """Raise AssertionError where the op leaves its loop by more than the bounds of its dtype."""
    dtype = arrays["v"].dtype
    real = np.ones(arrays["q"].shape[:2], bool) if ids is None else ids != 0
    do = np.asarray(jnp.asarray(rng.normal(size=arrays["v"].shape) * real[..., None, None], dtype))
    dstate = rng.normal(size=arrays["initial_state"].shape).astype(np.float32)
    given = {name: array for name, array in arrays.items() if name != "initial_state"}
    (want_o, want_state), want = getattr(delta_reference, op)(
        **{"log_decay": None, **given}, scale=WIDTH**-0.5, state=arrays["initial_state"], segment_ids=ids,
        cotangents=(do, dstate),
    )  # fmt: skip
    (o, state), got = pulled_back(arrays, ids, (do, dstate), op=op, **options)
    assert o.dtype == dtype and state.dtype == jnp.float32 and np.isfinite(np.asarray(o, np.float32)).all()
    forward, backward = (1e-5, 1e-4) if dtype == np.float32 else (2e-2, 2e-2)
    near(np.where(real[..., None, None], o, 0), want_o, forward, "o")
    near(state, want_state, forward, "final state")
    for name, gradient in want.items():
        near(got[name], gradient, backward, name)
    alone = ~real.any(axis=1)
    assert np.asarray(state)[alone].tobytes() == arrays["initial_state"][alone].tobytes()


def near(got, want, bound, name):
    """Relative RMS, row by row, so that a large row hides nothing in a small one."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    assert np.isfinite(got).all() and got.shape == want.shape, name
    if want.ndim == 1:
        got, want = got[None], want[None]
    for row, (g, w) in enumerate(zip(got, want, strict=True)):
        error = np.linalg.norm(g - w) / max(np.linalg.norm(w), 1e-30)
        assert error <= bound, (name, row, error)


def cover():
    """Every (length, chunk); decay, packing and dtype cycle so that each meets each length and chunk."""
    for row, length in enumerate(LENGTHS):
        for column, chunk in enumerate(CHUNKS):
            index = row + column
            kind = DECAYS[(row + 2 * column + row // 4) % 4]
            yield length, chunk, kind, bool(index % 2), "bfloat16" if index % 3 == 2 else "float32"
