"""Mamba's scan in every form against a float64 loop written from its equation."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqmodels.ops import selective_scan_chunked
from seqmodels.ops.selective_scan import METHODS, selective_scan
from tests.ops.selective_scan_reference import NAMES, STATE, WIDTH, draw, reference, rows_of_ids


@functools.partial(jax.jit, static_argnames=("method", "chunk_size"))
def run(inputs, segment_ids, dy, dstate, *, method, chunk_size):
    """y, the final state, and the gradients of sum(y dy) + sum(state dstate)."""

    def objective(inputs):
        y, state = selective_scan(**inputs, segment_ids=segment_ids, method=method, chunk_size=chunk_size)
        loss = (y.astype(jnp.float32) * dy).sum() + (state * dstate).sum()
        return loss, (y, state)

    (_, (y, state)), gradients = jax.value_and_grad(objective, has_aux=True)(inputs)
    return y, state, gradients


def assert_near(got, expected, tolerance, name):
    """Relative RMS, row by row, so that a large row hides nothing in a small one."""
    got, expected = np.asarray(got, np.float64), np.asarray(expected, np.float64)
    assert np.isfinite(got).all(), name
    if name in ("A", "D"):
        got, expected = got[None], expected[None]
    for row, (g, e) in enumerate(zip(got, expected, strict=True)):
        assert np.linalg.norm(g - e) <= tolerance * np.linalg.norm(e) + 1e-30, f"{name}, row {row}"


def compare_with_reference(length, dtype, method, chunk_size):
    ids = rows_of_ids(length)
    inputs, dy, dstate = draw(length, dtype)
    real = (ids != 0)[:, :, None]
    dy = np.where(real, dy, 0.0)
    arrays = (inputs, ids, dy.astype(np.float32), dstate.astype(np.float32))
    y, state, gradients = run(*arrays, method=method, chunk_size=chunk_size)
    assert y.dtype == dtype and state.dtype == jnp.float32
    wanted_y, wanted_state, wanted = reference(inputs, ids, *arrays[2:])
    forward, backward = (1e-5, 1e-4) if dtype == jnp.float32 else (2e-2, 2e-2)
    assert_near(np.where(real, y, 0.0), wanted_y, forward, "y")
    assert_near(state, wanted_state, forward, "state")
    for name in NAMES:
        assert_near(gradients[name], wanted[name], backward, name)


LENGTHS = (1, 2, 3, 7, 16, 63, 64, 65, 129)


@pytest.mark.parametrize(
    ("method", "length"),
    [*(("sequential", n) for n in LENGTHS[::2]), *(("associative", n) for n in LENGTHS[1::2])],
)
def test_forms_without_chunks_follow_the_equation(method, length):
    """Wrong if a form's outputs, final state or any gradient leave the float64 loop."""
    dtype = jnp.bfloat16 if length in (3, 7) else jnp.float32
    compare_with_reference(length, dtype, method, 32)


@pytest.mark.parametrize("length", [1, 7])
def test_auto_follows_the_equation(length):
    """Wrong if the closed form of a single token, which only "auto" takes, differs from the others."""
    compare_with_reference(length, jnp.float32, "auto", 32)


@pytest.mark.parametrize("chunk_size", [1, 16, 64])
@pytest.mark.parametrize("length", LENGTHS)
def test_chunked_follows_the_equation(length, chunk_size):
    """Wrong if a tail chunk, a border inside a chunk or the gradient written by hand is wrong."""
    dtype = jnp.bfloat16 if (length + chunk_size) % 3 == 0 else jnp.float32
    compare_with_reference(length, dtype, "chunked", chunk_size)


@pytest.mark.parametrize(("length", "chunk_size"), [(1, 16), (7, 16), (65, 16)])
def test_chunked_as_accelerators_run_it_follows_the_equation(length, chunk_size, monkeypatch):
    """Wrong if walking whole chunks at once, the way of GPU and TPU, differs from walking tokens."""
    monkeypatch.setattr(selective_scan_chunked, "tokens_at_once", lambda chunk_size: chunk_size)
    run.clear_cache()
    compare_with_reference(length, jnp.float32, "chunked", chunk_size)
    run.clear_cache()


@pytest.mark.parametrize("method", METHODS)
def test_documents_do_not_touch_each_other(method):
    """Wrong if one bit of a document's outputs, gradients or state depends on another document in the row."""
    ids = np.asarray([[1] * 5 + [2] * 6 + [0, 0] + [2] * 3 + [3] * 7])
    inputs, dy, dstate = draw(ids.shape[1], jnp.float32)
    inputs = {name: value if value.shape[0] != 6 else value[:1] for name, value in inputs.items()}
    dy = np.where((ids != 0)[:, :, None], dy[:1], 0.0)
    arrays = (ids, dy.astype(np.float32), dstate[:1].astype(np.float32))
    before = run(inputs, *arrays, method=method, chunk_size=4)
    for document in (1, 2, 3):
        own = np.flatnonzero(ids[0] == document)
        changed = dict(inputs)
        for name in ("x", "dt", "B", "C"):
            changed[name] = inputs[name].at[:, own].multiply(3.0)
        if document == 1:
            changed["initial_state"] = inputs["initial_state"] + 1
        after = run(changed, *arrays, method=method, chunk_size=4)
        other = np.flatnonzero((ids[0] != document) & (ids[0] != 0))
        np.testing.assert_array_equal(before[0][:, other], after[0][:, other])
        for name in ("x", "dt", "B", "C"):
            np.testing.assert_array_equal(before[2][name][:, other], after[2][name][:, other])
        assert np.array_equal(before[1], after[1]) == (document != 3)
        assert not np.array_equal(before[0][:, own], after[0][:, own])


@pytest.mark.parametrize("method", METHODS)
def test_later_tokens_do_not_touch_earlier_ones(method):
    """Wrong if an output depends on its future, by one bit or by any gradient."""
    length, changed_at, read_at = 40, 21, 17
    inputs, _, _ = draw(length, jnp.float32)
    ids = jnp.ones((6, length), jnp.int32)
    dy = jnp.zeros((6, length, WIDTH)).at[:, read_at].set(1.0)
    nothing = jnp.zeros((6, WIDTH, STATE))
    y, _, gradients = run(inputs, ids, dy, nothing, method=method, chunk_size=16)
    changed = {
        name: v.at[:, changed_at].add(0.5) if v.ndim == 3 and v.shape[1] == length else v
        for name, v in inputs.items()
    }
    other, _, _ = run(changed, ids, dy, nothing, method=method, chunk_size=16)
    np.testing.assert_array_equal(y[:, :changed_at], other[:, :changed_at])
    assert not np.array_equal(y[:, changed_at:], other[:, changed_at:])
    for name in ("x", "dt", "B", "C"):
        assert not np.asarray(gradients[name][:, read_at + 1 :]).any(), name


@pytest.mark.parametrize("method", METHODS)
def test_padding_is_inert(method):
    """Wrong if padding, whatever stands there, moves a bit of the outputs or of the state it surrounds."""
    length = 23
    ids = rows_of_ids(length)
    inputs, dy, dstate = draw(length, jnp.float32)
    dy = np.where((ids != 0)[:, :, None], dy, 0.0)
    arrays = (ids, dy.astype(np.float32), dstate.astype(np.float32))
    before = run(inputs, *arrays, method=method, chunk_size=16)
    padding = (ids == 0)[:, :, None]
    loud = {
        name: jnp.where(padding, 100.0, v) if v.ndim == 3 and v.shape[1] == length else v
        for name, v in inputs.items()
    }
    after = run(loud, *arrays, method=method, chunk_size=16)
    np.testing.assert_array_equal(np.where(padding, 0, before[0]), np.where(padding, 0, after[0]))
    np.testing.assert_array_equal(before[1], after[1])
    assert np.isfinite(after[0]).all()
    np.testing.assert_array_equal(
        np.asarray(after[1][5]).view(np.int32), np.asarray(inputs["initial_state"][5]).view(np.int32)
    )


@pytest.mark.parametrize("method", METHODS)
def test_pieces_with_carried_state_equal_the_whole(method):
    """Wrong if the returned state is not the one that the next tokens need."""
    length = 19
    inputs, _, _ = draw(length, jnp.float32)
    scan = jax.jit(functools.partial(selective_scan, method=method, chunk_size=8))
    whole, final = scan(**inputs)
    for piece in (1, 5):
        state, outputs = inputs["initial_state"], []
        for first in range(0, length, piece):
            part = {n: v[:, first : first + piece] for n, v in inputs.items() if n in ("x", "dt", "B", "C")}
            y, state = scan(**part, A=inputs["A"], D=inputs["D"], initial_state=state)
            outputs.append(y)
        np.testing.assert_allclose(np.concatenate(outputs, axis=1), whole, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(state, final, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("method", ["sequential", "associative"])
def test_without_ids_state_or_direct_path(method):
    """Wrong if the defaults are not one document, a zero state and no direct path."""
    inputs, _, _ = draw(9, jnp.float32)
    y, state = selective_scan(**{n: inputs[n] for n in ("x", "dt", "A", "B", "C")}, method=method)
    given = {**inputs, "D": jnp.zeros(WIDTH), "initial_state": jnp.zeros((6, WIDTH, STATE))}
    wanted_y, wanted_state, _ = reference(given, np.ones((6, 9)), np.zeros(y.shape), np.zeros(state.shape))
    np.testing.assert_allclose(y, wanted_y, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(state, wanted_state, rtol=1e-5, atol=1e-5)


def test_chunked_memory_is_linear():
    """Wrong if the compiled gradient holds all states at once, or over 1/8 of the token scan's memory."""
    batch, length, width, size = 1, 1024, 64, 16
    shape = functools.partial(jax.ShapeDtypeStruct, dtype=jnp.float32)
    arrays = (
        shape((batch, length, width)),
        shape((batch, length, width)),
        shape((width, size)),
        shape((batch, length, size)),
        shape((batch, length, size)),
    )

    def compiled(method):
        def loss(*arrays):
            y, state = selective_scan(*arrays, method=method)
            return (y * y).sum() + state.sum()

        return jax.jit(jax.grad(loss, argnums=range(5))).lower(*arrays).compile()

    chunked, scan = compiled("chunked"), compiled("sequential")
    elements = batch * length * width * size
    assert elements not in array_sizes(chunked.as_text()) and elements in array_sizes(scan.as_text())
    temporary = [c.memory_analysis().temp_size_in_bytes for c in (chunked, scan)]
    assert temporary[0] * 8 <= temporary[1], temporary


def array_sizes(program):
    """The number of elements of every array in a compiled program's text."""
    return {
        int(np.prod([int(n) for n in dims.split(",")])) for dims in re.findall(r"f32\[([\d,]+)\]", program)
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "parallel"}, "method is 'parallel'"),
        ({"chunk_size": 0}, "chunk_size is 0"),
        ({"x": jnp.zeros((2, 3))}, "x has shape"),
        ({"A": jnp.zeros((4, 3))}, "A has shape"),
        ({"dt": jnp.zeros((6, 8, 5))}, "dt has shape"),
        ({"B": jnp.zeros((6, 9, 4))}, "B has shape"),
        ({"C": jnp.zeros((6, 9, 4))}, "C has shape"),
        ({"D": jnp.zeros((4,))}, "D has shape"),
        (
            {"initial_state": jnp.zeros((6, 3, 5))},
            "initial_state has shape",
        ),
        ({"segment_ids": jnp.zeros((6, 8), jnp.int32)}, "segment_ids has shape"),
        ({"segment_ids": jnp.zeros((6, 9))}, "segment_ids is float32"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(change, message):
    """Wrong if a bad shape or setting runs on, or fails far from where it was given."""
    inputs, _, _ = draw(9, jnp.float32)
    with pytest.raises(ValueError, match=message) as error:
        selective_scan(**{**inputs, **change})
    assert str(error.value).startswith("selective_scan: ") and str(error.value).endswith(".")
