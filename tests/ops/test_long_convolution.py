"""Long convolutions against a loop over documents, and what a convolution by FFT usually gets wrong."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqmodels.ops import long_convolution
from tests.ops.reference_loops import random_segment_ids, relative_rms

METHODS = ("blockwise", "fft")
every_method = pytest.mark.parametrize("method", METHODS)


def reference(x, kernel, ids):
    """(y at real tokens, 0 elsewhere): each token's sum over the earlier ones of its document."""
    y = np.zeros(x.shape)
    for row in range(x.shape[0]):
        seen, current = [], None
        for t in range(x.shape[1]):
            name = 1 if ids is None else ids[row, t]
            if name:
                seen = seen if name == current else []
                current = name
                seen.append(x[row, t].astype(np.float64))
                y[row, t] = sum(k * past for k, past in zip(kernel, reversed(seen), strict=False))
    return y


def adjoint(x, kernel, ids, cotangent):
    """The gradients of (x, kernel), from one unit of x and of the kernel at a time being linear in both."""
    dx, dkernel = np.zeros(x.shape), np.zeros(kernel.shape)
    for row in range(x.shape[0]):
        seen, current = [], None
        for t in range(x.shape[1]):
            name = 1 if ids is None else ids[row, t]
            if name:
                seen = seen if name == current else []
                current = name
                seen.append(t)
                for distance, source in enumerate(reversed(seen)):
                    if distance < kernel.shape[0]:
                        dx[row, source] += kernel[distance] * cotangent[row, t]
                        dkernel[distance] += cotangent[row, t].astype(np.float64) * x[row, source]
    return dx, dkernel


# Lengths around the short convolution, a block, and several of them; a filter shorter and longer than a row.
@pytest.mark.parametrize(("length", "lags"), [(1, 1), (7, 9), (9, 9), (65, 40), (129, 129), (200, 260)])
@every_method
def test_values_and_gradients(method, length, lags):
    """A lag counted twice or not at all at the border of two sizes of blocks; padding counted as distance."""
    rng = np.random.default_rng(length)
    x, cotangent = (rng.normal(size=(3, length, 2)).astype(np.float32) for _ in range(2))
    kernel = rng.normal(size=(lags, 2)).astype(np.float32)
    for ids in (None, random_segment_ids(rng, 3, length)):
        real = (np.ones_like(x[..., 0]) if ids is None else ids != 0)[..., None].astype(np.float32)
        weights = (cotangent * real).astype(np.float32)

        @jax.jit
        def run(x, kernel, weights, ids=ids):
            y, pull = jax.vjp(lambda x, k: long_convolution(x, k, segment_ids=ids, method=method), x, kernel)
            return y, pull(weights)

        y, (dx, dkernel) = run(x, kernel, weights)
        assert relative_rms(y * real, reference(x, kernel, ids)) < 1e-6
        wanted = adjoint(x, kernel, ids, weights)
        assert relative_rms(dx, wanted[0]) < 1e-6
        assert relative_rms(dkernel, wanted[1]) < 1e-6


@every_method
def test_nothing_crosses_a_border_or_comes_from_later(method):
    """To the bit, through FFTs too: one transform of a whole row would let every token move every output."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 200, 3)).astype(np.float32)
    kernel = rng.normal(size=(200, 3)).astype(np.float32)
    ids = random_segment_ids(rng, 1, 200)
    ids = np.concatenate([ids, np.ones((1, 200), np.int32)])
    run = jax.jit(lambda x: long_convolution(x, kernel, segment_ids=ids, method=method))
    y = np.asarray(run(x))
    for row, place in ((0, 30), (0, 77), (0, 150), (1, 5), (1, 63), (1, 64), (1, 128)):
        changed = x.copy()
        changed[row, place] = 1e4
        moved = (np.asarray(run(changed)) != y).any(axis=-1)
        reached = np.zeros((2, 200), bool)
        reached[row, place:] = ids[row, place:] == ids[row, place]
        assert not (moved & ~reached & (ids != 0)).any()
        assert moved[row, place] or ids[row, place] == 0


def test_bfloat16_is_summed_in_float32():
    """Sums of 200 terms in bfloat16 would err by percents."""
    rng = np.random.default_rng(0)
    x, kernel = (jnp.asarray(rng.normal(size=shape), jnp.bfloat16) for shape in ((1, 200, 2), (200, 2)))
    y = long_convolution(x, kernel)
    assert y.dtype == jnp.bfloat16
    wide = (np.asarray(array.astype(jnp.float32)) for array in (x, kernel))
    assert relative_rms(y.astype(jnp.float32), reference(*wide, None)) < 4e-3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": np.zeros((2, 0, 3))}, r"x has shape \(2, 0, 3\), expected \[B, T, D\] with T >= 1"),
        ({"kernel": np.zeros((4, 2))}, r"kernel has shape \(4, 2\), expected \[S, D\], S >= 1 and D = 3"),
        ({"segment_ids": np.ones((2, 4), np.int32)}, "segment_ids has shape"),
        ({"method": "chunked"}, "method is 'chunked'; it offers auto, blockwise, fft"),
    ],
)
def test_wrong_arguments_are_refused(changes, message):
    arguments = {"x": np.zeros((2, 5, 3)), "kernel": np.zeros((5, 3)), **changes}
    arguments = {
        name: v.astype(np.float32) if name in ("x", "kernel") else v for name, v in arguments.items()
    }
    with pytest.raises(ValueError, match=message):
        long_convolution(**arguments)
