"""Contract: every form of every mixer computes its paper's equation, forward and backward, at any length."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from seqmodels.mixers import MIXERS
from tests.mixers.references import REFERENCES
from tests.mixers.subjects import (
    DEFAULTS,
    FORMS,
    WIDTH,
    as_used,
    build,
    gradients,
    marks,
    normal,
    over,
    program,
    relative_rms,
)

LONGEST = 129
# (length, chunk size): one token, a chunk, and chunks with a tail of one; BACKWARD checks outputs too.
FORWARD = ((1, 16), (3, 16), (64, 64), (129, 64))
BACKWARD = ((3, 16), (65, 16))
X = {size: normal(2, LONGEST, WIDTH, size=size) for size in (1.0, 50.0)}
COTANGENT = normal(2, LONGEST, WIDTH, seed=1)


@functools.cache
def reference_program(name, dtype):
    def run(params, x, cotangent):
        y, pull = jax.vjp(REFERENCES[name], params, x)
        return y, pull(cotangent)

    return jax.jit(run, compiler_options=as_used(name))


@functools.cache
def reference(name, size, length, dtype="float64"):
    """(y, gradients of (params, x)) over the first `length` tokens; later ones have weight 0."""
    params = build(next(subject for subject in DEFAULTS if subject.mixer == name))[1]
    weights = np.where(np.arange(LONGEST)[None, :, None] < length, COTANGENT, 0.0)
    loose = jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow")
    with jax.enable_x64(dtype == "float64"), loose[0], loose[1]:
        wide = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf), dtype), (params, X[size], weights))
        y, (of_params, of_x) = jax.device_get(reference_program(name, dtype)(*wide))
    return y[:, :length], (of_params, of_x[:, :length])


def error(got, wanted):
    """The largest relative RMS over leaves; one below a thousandth of the largest counts against that."""
    wanted = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(wanted)]
    sizes = [np.sqrt(np.mean(leaf**2)) for leaf in wanted]
    floor = 1e-3 * max(sizes)
    misses = [
        np.sqrt(np.mean((np.asarray(g) - w) ** 2)) for g, w in zip(jax.tree.leaves(got), wanted, strict=True)
    ]
    return max(miss / max(size, floor) for miss, size in zip(misses, sizes, strict=True))


def chunked(chunk):
    return (("block_size", chunk), ("chunk_size", chunk))


def test_every_mixer_has_a_reference():
    assert set(REFERENCES) == set(MIXERS)


@pytest.mark.parametrize(("length", "chunk"), FORWARD)
@over(FORMS)
def test_outputs_are_those_of_the_equation(subject, length, chunk):
    """A wrong chunk border, tail or mask shows at one of these lengths; inputs of 50 show overflow."""
    for size, x in X.items():
        y, _ = program(subject, chunked(chunk))(x[:, :length])
        _is_the_output(y, subject, size, length)


def _is_the_output(y, subject, size, length):
    assert jnp.isfinite(y).all()
    # Of compressed attention's queries of 50, one finds two logits in the thousands nearly equal: the float32
    # rounding of its q and k alone already moves the outputs by 0.9e-5.
    bound = 2e-5 if subject.mixer == "CompressedAttention" and size == 50 else 1e-5
    assert error(y, reference(subject.mixer, size, length)[0]) <= bound


def _gradient_bound(subject, size, length):
    """1e-4; for softmax attention at inputs of 50, what its equation errs by in float32, where that is more.

    Its logits are in the thousands there. Done in float64 but for one correct rounding each of q and k, of
    the turned q and k, and of the logits, gradients already err by 3.9e-4 at 65 tokens.
    """
    if subject.mixer not in ("SoftmaxAttention", "CompressedAttention") or size == 1:
        return 1e-4
    wanted, plain = (reference(subject.mixer, size, length, dtype)[1] for dtype in ("float64", "float32"))
    return max(1e-4, 1.5 * error(plain, wanted))


@pytest.mark.parametrize(
    ("subject", "length", "chunk"),
    [
        pytest.param(subject, length, chunk, id=f"{subject}-{length}", marks=marks(subject))
        for subject in FORMS
        for length, chunk in BACKWARD
        if length > chunk
        or subject.method in ("chunked", "blockwise")  # less than a chunk, where there are any
    ],
)
def test_gradients_are_those_of_the_equation(subject, length, chunk):
    """A tail chunk that loses a term of a gate's gradient, or a masked exponent that leaks, shows here."""
    for size, x in X.items():
        y, got = gradients(subject, chunked(chunk))(x[:, :length], COTANGENT[:, :length])
        _is_the_output(y, subject, size, length)
        assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(got))
        wanted = reference(subject.mixer, size, length)[1]
        assert error(got, wanted) <= _gradient_bound(subject, size, length)


@over(FORMS)
def test_bfloat16_keeps_its_sums_in_float32(subject):
    """Sums in bfloat16 stop growing at 256: the error would be far above 2 %, and grow along the sequence."""
    x = jnp.asarray(X[1.0], jnp.bfloat16)
    y, _ = program(subject, chunked(64))(x)
    assert y.dtype == jnp.bfloat16
    wanted = reference(subject.mixer, 1.0, LONGEST)[0]
    assert relative_rms(y, wanted) <= 2e-2
    halves = [relative_rms(y[:, part], wanted[:, part]) for part in (slice(64), slice(64, LONGEST))]
    assert halves[1] <= 2 * halves[0]


@over(FORMS)
def test_earlier_outputs_do_not_know_later_tokens(subject):
    """Causality forward, to the bit: a leak of any size from the future invalidates every training loss."""
    x = np.array(X[1.0])
    y, _ = program(subject, chunked(64))(x)
    for place in (10, 63, 64, 128):
        changed = x.copy()
        changed[:, place] += 1.0
        changed, _ = program(subject, chunked(64))(changed)
        np.testing.assert_array_equal(changed[:, :place], y[:, :place])
        assert (changed[:, place] != y[:, place]).any()
        assert (changed[:, place + 1 :] != y[:, place + 1 :]).any() or place == LONGEST - 1


@over(FORMS)
def test_gradients_do_not_reach_later_tokens(subject):
    """Causality backward: the gradient of one output to every later input is exactly 0."""
    cotangent = np.zeros((2, 65, WIDTH), np.float32)
    cotangent[:, 20] = 1.0
    _, (_, of_x) = gradients(subject, chunked(16))(X[1.0][:, :65], cotangent)
    assert (of_x[:, 21:] == 0).all()
    assert (of_x[:, :21] != 0).any()


@over(DEFAULTS)
def test_compiled_equals_eager(subject):
    """A value that depends on being traced, such as a check on concrete numbers, would differ."""
    mixer = nnx.merge(*build(subject, changes=chunked(16)))
    x, state = X[1.0][:, :1], mixer.init_state(2, 4)
    eager, _ = mixer(jnp.asarray(x), state=state)
    assert relative_rms(program(subject, chunked(16))(x, None, state)[0], eager) <= 1e-6
