"""causal_conv against a loop that keeps a window: leaks through the window are the ones packing forgets."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqmodels.ops import causal_conv
from tests.ops import reference_loops
from tests.ops.reference_loops import random_segment_ids, relative_rms


def _inputs(rng, length, taps, batch=4, width=3):
    shapes = (batch, length, width), (taps, width), (width,), (batch, taps - 1, width)
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("length", "taps"), [(1, 4), (2, 4), (3, 1), (7, 2), (64, 4), (129, 3)])
def test_values_equal_the_loop(length, taps, packed):
    """Wrong here: padding enters the window, a border does not empty it, or a short row
    loses its old window."""
    rng = np.random.default_rng(length)
    x, weight, bias, state = _inputs(rng, length, taps)
    ids = random_segment_ids(rng, 4, length) if packed else None
    want, want_state = reference_loops.causal_conv(x, weight, bias, state, ids)
    got, got_state = jax.jit(causal_conv)(
        x, weight, bias, initial_state=state, segment_ids=None if ids is None else jnp.asarray(ids)
    )
    real = np.ones((4, length), bool) if ids is None else ids != 0
    assert np.isfinite(got).all()
    assert relative_rms(np.where(real[..., None], got, 0), want) <= 1e-6
    np.testing.assert_allclose(got_state, want_state, rtol=1e-6)
    if packed:
        assert np.asarray(got_state[-1]).tobytes() == state[-1].tobytes()


@pytest.mark.parametrize("packed", [False, True])
def test_gradients_are_those_of_the_linear_map(packed):
    """Wrong here: a gradient crosses a border or lands on padding. The map is linear in each argument, so its
    gradient against a cotangent is exact from differences of the float64 loop along single entries."""
    rng = np.random.default_rng(1)
    x, weight, bias, state = _inputs(rng, 9, 4, batch=2, width=2)
    ids = np.array([[1, 1, 0, 1, 2, 2, 3, 0, 3], [0, 0, 5, 5, 5, 0, 7, 7, 7]], np.int32) if packed else None
    real = np.ones((2, 9, 1)) if ids is None else (ids != 0)[..., None]
    cotangent, state_cotangent = rng.normal(size=x.shape) * real, rng.normal(size=state.shape)

    def pairing(*arguments):
        y, final = reference_loops.causal_conv(*arguments, ids)
        return (y * cotangent).sum() + (final * state_cotangent).sum()

    @jax.jit
    def gradients(cotangents, *arguments):
        def op(x, weight, bias, state):
            marks = None if ids is None else jnp.asarray(ids)
            return causal_conv(x, weight, bias, initial_state=state, segment_ids=marks)

        return jax.vjp(op, *arguments)[1](cotangents)

    got = gradients(
        (cotangent.astype(np.float32), state_cotangent.astype(np.float32)), x, weight, bias, state
    )
    arguments = [array.astype(np.float64) for array in (x, weight, bias, state)]
    base = pairing(*arguments)
    for index, argument in enumerate(arguments):
        want = np.zeros(argument.shape)
        for entry in np.ndindex(argument.shape):
            moved = [array.copy() for array in arguments]
            moved[index][entry] += 1
            want[entry] = pairing(*moved) - base
        assert relative_rms(got[index], want) <= 1e-5, index


def test_a_prompt_shorter_than_the_window_leaves_zeros_and_goes_on():
    """Wrong here: a prompt of fewer tokens than taps crashes or stores a window that decoding cannot use."""
    rng = np.random.default_rng(2)
    x, weight, bias, _ = _inputs(rng, 9, 4, batch=2)
    whole, final = causal_conv(x, weight, bias)
    for prompt in (1, 2, 3, 4):
        y, state = causal_conv(x[:, :prompt], weight, bias)
        pieces = [y]
        for t in range(prompt, 9):
            y, state = causal_conv(x[:, t : t + 1], weight, bias, initial_state=state)
            pieces.append(y)
        np.testing.assert_allclose(jnp.concatenate(pieces, axis=1), whole, rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(state, final)


def test_documents_do_not_touch_each_other_by_a_bit():
    """Wrong here: the last tokens of one document enter the window of the next."""
    rng = np.random.default_rng(3)
    x, weight, bias, _ = _inputs(rng, 11, 4, batch=1)
    ids = jnp.asarray([[1] * 5 + [2] * 6], jnp.int32)
    run = jax.jit(lambda x: causal_conv(x, weight, bias, segment_ids=ids)[0])
    base, other = run(x), run(jnp.asarray(x).at[:, 4].set(1e30))
    assert np.asarray(base[:, 5:]).tobytes() == np.asarray(other[:, 5:]).tobytes()
    alone = causal_conv(x[:, 5:], weight, bias)[0]
    np.testing.assert_allclose(base[:, 5:], alone, rtol=1e-6, atol=1e-6)


def test_dtypes():
    """Wrong here: a bfloat16 window drifts to float32 over steps (a new compile) or the
    sum is rounded early."""
    x, weight = jnp.ones((1, 5, 2), jnp.bfloat16), jnp.full((4, 2), 1 / 3)
    ids = jnp.ones((1, 5), jnp.int32)
    for marks in (None, ids):
        for state in (None, jnp.zeros((1, 3, 2)), jnp.zeros((1, 3, 2), jnp.bfloat16)):
            y, final = jax.jit(causal_conv)(x, weight, initial_state=state, segment_ids=marks)
            assert y.dtype == jnp.bfloat16
            assert final.dtype == (jnp.bfloat16 if state is None else state.dtype)
            assert float(y[0, -1, 0]) == float(jnp.bfloat16(4 / 3))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x": jnp.ones((2, 3))}, r"x has shape \(2, 3\), expected \[B, T, D\]"),
        ({"weight": jnp.ones((4, 5))}, r"weight has shape \(4, 5\), expected \[W, D\]"),
        ({"bias": jnp.ones(5)}, r"bias has shape \(5,\)"),
        ({"initial_state": jnp.ones((2, 4, 3))}, r"expected \[B, W-1, D\] = \(2, 3, 3\)"),
        ({"segment_ids": jnp.ones((2, 5), jnp.int32)}, r"segment_ids has shape \(2, 5\)"),
    ],
)
def test_wrong_arguments_are_refused_in_one_sentence(change, words):
    """Wrong here: a wrong shape is broadcast in silence."""
    arguments = {"x": jnp.ones((2, 6, 3)), "weight": jnp.ones((4, 3)), **change}
    with pytest.raises(ValueError, match=words):
        causal_conv(arguments.pop("x"), arguments.pop("weight"), **arguments)
