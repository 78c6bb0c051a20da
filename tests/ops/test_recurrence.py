"""linear_recurrence: every method, direction and kind of number against a float64 loop,
gradients included."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqmodels.ops import linear_recurrence
from tests.ops import reference_loops
from tests.ops.reference_loops import relative_rms

recurrence = jax.jit(linear_recurrence, static_argnames=("method", "reverse"))
LENGTHS = (1, 2, 3, 7, 16, 63, 64, 65, 129)
# [B, T, *S] of a and of x, from x's own shape to one decay for everything.
SHAPES = (
    (lambda t: (3, t, 5), lambda t: (3, t, 5)),
    (lambda t: (3, t, 2, 1), lambda t: (3, t, 2, 4)),
    (lambda t: (1, 1, 5), lambda t: (3, t, 5)),
    (lambda t: (3, t, 2, 4), lambda t: (1, t, 2, 1)),
    (lambda t: (1, t, 1), lambda t: (3, t, 5)),
    (lambda t: (3, t), lambda t: (3, t)),
)


def _draw(rng, shape, kind):
    if kind == "complex64":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64)
    return rng.normal(size=shape).astype(np.float32)


def _decay(rng, shape, kind):
    """Of size below 1 everywhere, with exact zeros and ones among them."""
    size = rng.choice([0.0, 1.0, 0.5, 0.999], size=shape)
    turn = rng.uniform(0, np.pi, size=shape)
    return (size * np.exp(1j * turn)).astype(np.complex64) if kind == "complex64" else size.astype(np.float32)


def _against_the_loop(method, length, index, kinds, reverse, packed):
    rng = np.random.default_rng(length + 1000 * index)
    a_shape, x_shape = (shape(length) for shape in SHAPES[index % len(SHAPES)])
    full = np.broadcast_shapes(a_shape, x_shape)
    kind = "complex64" if "complex64" in kinds else "float32"
    a, x = _decay(rng, a_shape, kinds[0]), _draw(rng, x_shape, kinds[1])
    state, cotangent, final_cotangent = (
        _draw(rng, shape, kind) for shape in ((full[0], *full[2:]), full, (full[0], *full[2:]))
    )
    ids = reference_loops.random_segment_ids(rng, full[0], length) if packed else None
    want, want_gradients = reference_loops.linear_recurrence(
        a, x, state, ids, cotangent, final_cotangent, reverse=reverse
    )
    kinds_out = [array.dtype for array in (a, x, state)]
    want_gradients = [
        array if np.issubdtype(kind, np.complexfloating) else array.real
        for array, kind in zip(want_gradients, kinds_out, strict=True)
    ]

    @jax.jit
    def run(a, x, state, cotangents):
        def op(a, x, state):
            return linear_recurrence(
                a, x, initial_state=state, segment_ids=ids, reverse=reverse, method=method
            )

        values, pullback = jax.vjp(op, a, x, state)
        return values, pullback(cotangents)

    ids = None if ids is None else jnp.asarray(ids)
    got, got_gradients = run(a, x, state, (cotangent, final_cotangent))
    for name, left, right in zip(("h", "final state"), got, want, strict=True):
        assert relative_rms(left, right) <= 1e-5, (name, relative_rms(left, right))
    for name, left, right in zip(("a", "x", "initial_state"), got_gradients, want_gradients, strict=True):
        assert relative_rms(left, right) <= 1e-4, (name, relative_rms(left, right))


@pytest.mark.parametrize("method", ["sequential", "associative"])
@pytest.mark.parametrize("length", LENGTHS)
def test_values_and_gradients_equal_the_loop(method, length):
    """Wrong here: a term of the hand-written gradient lost at an edge, in one direction,
    or across a border."""
    index = LENGTHS.index(length)
    packed, reverse = bool(index % 2), bool(index // 2 % 2)
    _against_the_loop(method, length, index, ("float32", "float32"), reverse, packed)


@pytest.mark.parametrize("method", ["sequential", "associative"])
@pytest.mark.parametrize(
    "kinds", [("complex64", "complex64"), ("float32", "complex64"), ("complex64", "float32")]
)
def test_complex_numbers_too(method, kinds):
    """Wrong here: a conjugate too many in the gradient, or an imaginary part dropped."""
    for index, (reverse, packed) in enumerate([(False, True), (True, False)]):
        _against_the_loop(method, 17, index, kinds, reverse, packed)


@pytest.mark.parametrize("method", ["sequential", "associative"])
@pytest.mark.parametrize("reverse", [False, True])
def test_padding_repeats_the_carried_state(method, reverse):
    """Wrong here: padding that decays or rounds the state, or loses the sign of a zero in
    a row of padding alone."""
    ids = jnp.asarray([[0, 1, 1, 0, 0, 2, 0], [0] * 7], jnp.int32)
    state = jnp.asarray([[1.5, -0.0], [-0.0, np.float32(1 / 3)]])
    a, x = jnp.full((2, 7, 2), 0.7), jnp.full((2, 7, 2), 0.3).at[:, 0].set(jnp.nan)
    h, final = recurrence(a, x, initial_state=state, segment_ids=ids, reverse=reverse, method=method)
    h = h[:, ::-1] if reverse else h
    mask = np.asarray(ids[0] != 0)[:: -1 if reverse else 1]
    carried = np.asarray(state[0])
    for t in range(7):
        if mask[t]:
            carried = np.asarray(h[0, t])
        np.testing.assert_array_equal(h[0, t], carried)
    np.testing.assert_array_equal(final[0], carried)
    assert np.asarray(final[1]).tobytes() == np.asarray(state[1]).tobytes()


@pytest.mark.parametrize("method", ["sequential", "associative"])
def test_documents_do_not_touch_each_other_by_a_bit(method):
    """Wrong here: a value, not even a sign of zero, crosses a border; overflow in one
    document reaches the next."""
    rng = np.random.default_rng(3)
    ids = jnp.asarray([[1] * 5 + [2] * 6 + [3] * 8], jnp.int32)
    a = jnp.asarray(rng.uniform(0.2, 1, size=(1, 19, 4)), jnp.float32)
    x = jnp.asarray(rng.normal(size=(1, 19, 4)), jnp.float32)
    run = jax.jit(lambda a, x: linear_recurrence(a, x, segment_ids=ids, method=method)[0])
    base = run(a, x)
    for replaced in (-x[:, 5:11], jnp.full((1, 6, 4), 3e38), jnp.full((1, 6, 4), jnp.inf)):
        other = run(a.at[:, 5:11].multiply(0.5), x.at[:, 5:11].set(replaced))
        for part in (slice(0, 5), slice(11, 19)):
            assert np.asarray(base[:, part]).tobytes() == np.asarray(other[:, part]).tobytes()


def test_reading_in_pieces_equals_reading_at_once():
    """Wrong here: the state handed from one call to the next is not the state inside a longer call."""
    rng = np.random.default_rng(4)
    a, x = (jnp.asarray(rng.uniform(low, 1, size=(2, 30, 3)), jnp.float32) for low in (0, -1))
    ids = jnp.asarray([[1] * 12 + [2] * 18, [0] * 5 + [1] * 20 + [0] * 5], jnp.int32)
    whole, final = recurrence(a, x, segment_ids=ids)
    state, pieces = jnp.zeros((2, 3)), []
    for left, right in ((0, 1), (1, 12), (12, 13), (13, 30)):
        part = slice(left, right)
        # An op knows no ids beyond its row: a document that begins with the piece starts from
        # the empty state.
        fresh = jnp.asarray([left == 12, False])[:, None]
        h, state = recurrence(
            a[:, part], x[:, part], initial_state=jnp.where(fresh, 0, state), segment_ids=ids[:, part]
        )
        pieces.append(h)
    np.testing.assert_allclose(jnp.concatenate(pieces, axis=1), whole, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(state, final, rtol=1e-6, atol=1e-6)


def test_bfloat16_is_summed_in_float32():
    """Wrong here: a bfloat16 sum of ones stops growing at 256."""
    ones = jnp.ones((1, 600, 1), jnp.bfloat16)
    for method in ("sequential", "associative"):
        h, final = recurrence(ones, ones, method=method)
        assert h.dtype == jnp.bfloat16 and final.dtype == jnp.float32
        assert float(final[0, 0]) == 600 and float(h[0, 511, 0]) == 512


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"method": "chunked"}, "method is 'chunked'; it offers auto, sequential, associative"),
        ({"a": jnp.ones((2, 4))}, "one rank"),
        ({"a": jnp.ones((2, 4, 5))}, "do not broadcast"),
        ({"a": jnp.ones((2, 0, 3)), "x": jnp.ones((2, 0, 3))}, "T >= 1"),
        ({"initial_state": jnp.ones((2, 4))}, r"initial_state has shape .*, expected \[B, \*S\] = \(2, 3\)"),
        ({"segment_ids": jnp.ones((2, 5), jnp.int32)}, r"segment_ids has shape \(2, 5\)"),
        ({"segment_ids": jnp.ones((2, 4))}, "segment_ids is float32, expected integers"),
    ],
)
def test_wrong_arguments_are_refused_in_one_sentence(change, words):
    """Wrong here: a wrong shape is broadcast in silence, or fails deep inside with a
    message about something else."""
    arguments = {"a": jnp.ones((2, 4, 3)), "x": jnp.ones((2, 4, 3)), **change}
    with pytest.raises(ValueError, match=words):
        linear_recurrence(arguments.pop("a"), arguments.pop("x"), **arguments)
