"""Softmax attention in both forms against dense float64 sums written from its equation."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqmodels.ops.attention import METHODS, softmax_attention
from tests.ops.attention_reference import counted, draw, reference, rows_of_ids
from tests.ops.reference_loops import relative_rms

LENGTHS = (1, 2, 3, 7, 16, 63, 64, 65, 129)
# heads, key/value heads, window, softcap, sinks, slopes
FEATURES = (
    (2, 2, None, None, False, False),
    (4, 2, 7, None, True, False),
    (3, 1, None, 2.0, False, True),
    (4, 4, 1, None, False, False),
    (4, 2, 40, 1.5, True, True),
)


@functools.partial(jax.jit, static_argnames=("window", "softcap", "method", "block_size"))
def run(arrays, places, do, **settings):
    """o and the gradients of sum(o do)."""

    def objective(arrays):
        o = softmax_attention(**arrays, **places, **settings)
        return (o.astype(jnp.float32) * do).sum(), o

    (_, o), gradients = jax.value_and_grad(objective, has_aux=True)(arrays)
    return o, gradients


def assert_follows_the_equation(arrays, places, wanted_places, do, *, method, block_size, window, softcap):
    settings = {"window": window, "softcap": softcap}
    o, gradients = run(arrays, places, do, method=method, block_size=block_size, **settings)
    wanted, wanted_gradients = reference(arrays, wanted_places, do, **settings)
    dtype = arrays["q"].dtype
    assert o.dtype == dtype
    forward, backward = (1e-5, 1e-4) if dtype == jnp.float32 else (2e-2, 2e-2)
    assert relative_rms(o, wanted) <= forward
    for name, gradient in gradients.items():
        if np.abs(wanted_gradients[name]).max() < 1e-12:
            # A single visible key has weight 1 whatever its logit: 0 is left of terms as large as `do`.
            np.testing.assert_allclose(gradient.astype(jnp.float32), 0, atol=backward, err_msg=name)
        else:
            assert relative_rms(gradient, wanted_gradients[name]) <= backward, name


def compare_with_reference(length, dtype, features, method, block_size):
    heads, groups, window, softcap, sinks, slopes = features
    ids = rows_of_ids(length)
    positions = counted(ids)
    arrays, do = draw(len(ids), length, length, heads, groups, sinks=sinks, slopes=slopes, dtype=dtype)
    assert_follows_the_equation(
        arrays,
        {"segment_ids": ids},
        (ids, positions, ids, positions),
        do,
        method=method,
        block_size=block_size,
        window=window,
        softcap=softcap,
    )


@pytest.mark.parametrize("length", LENGTHS)
def test_parallel_follows_the_equation(length):
    """Wrong if an output or a gradient leaves the dense float64 sums."""
    dtype = jnp.bfloat16 if length in (3, 64) else jnp.float32
    compare_with_reference(length, dtype, FEATURES[length % 5], "parallel", 128)


@pytest.mark.parametrize("block_size", [1, 16, 64])
@pytest.mark.parametrize("length", LENGTHS)
def test_blockwise_follows_the_equation(length, block_size):
    """Wrong if a tail block, a border inside a block, a skipped block or the gradient by hand is wrong."""
    dtype = jnp.bfloat16 if (length + block_size) % 3 == 0 else jnp.float32
    compare_with_reference(length, dtype, FEATURES[(length + block_size) % 5], "blockwise", block_size)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("length", "window"), [(1, None), (5, 9), (21, None)])
def test_against_a_cache(method, length, window):
    """Wrong if queries read slots that hold nothing, later tokens, other documents or tokens behind the
    window; the slots of the second row lie out of order, as in a ring buffer."""
    slots, held = 37, np.array([37, 30, 24])
    random = np.random.default_rng(0)
    order = np.stack([np.arange(slots), random.permutation(slots), np.arange(slots)])
    kv_ids = np.where(order < held[:, None], np.array([[1], [4], [2]]), 0).astype(np.int32)
    first = held[:, None] - length
    ids = np.broadcast_to(np.array([[1], [4], [2]]), (3, length)).astype(np.int32)
    positions = (first + np.arange(length)).astype(np.int32)
    kv_positions = order.astype(np.int32)
    arrays, do = draw(3, length, slots, 4, 2, sinks=True)
    assert_follows_the_equation(
        arrays,
        {
            "segment_ids": ids,
            "kv_segment_ids": kv_ids,
            "q_positions": positions,
            "kv_positions": kv_positions,
        },
        (ids, positions, kv_ids, kv_positions),
        do,
        method=method,
        block_size=8,
        window=window,
        softcap=None,
    )


@pytest.mark.parametrize("method", METHODS)
def test_defaults(method):
    """Wrong if without ids there is not one document, if keys do not stand where the queries do, or if the
    positions of keys with ids of their own are not counted."""
    arrays, do = draw(2, 9, 9, 2, 2)
    ones, counts = np.ones((2, 9), np.int32), np.tile(np.arange(9, dtype=np.int32), (2, 1))
    o, _ = run(arrays, {}, do, method=method)
    np.testing.assert_allclose(
        o, reference(arrays, (ones, counts, ones, counts), do)[0], rtol=1e-5, atol=1e-5
    )
    moved, _ = run(arrays, {"q_positions": counts * 2}, do, method=method, window=3)
    wanted = reference(arrays, (ones, counts * 2, ones, counts * 2), do, window=3)[0]
    np.testing.assert_allclose(moved, wanted, rtol=1e-5, atol=1e-5)
    kv_ids = rows_of_ids(9)[3:5]
    o, _ = run(arrays, {"segment_ids": ones * 7, "kv_segment_ids": kv_ids}, do, method=method)
    wanted = reference(arrays, (ones * 7, counts, kv_ids, counted(kv_ids)), do)[0]
    np.testing.assert_allclose(o, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_documents_do_not_touch_each_other(method):
    """Wrong if one bit of a document's outputs or gradients depends on another document, even on one whose
    masked logits stand 1e4 above the visible ones."""
    ids = np.asarray([[1] * 5 + [2] * 6 + [0, 0] + [2] * 3 + [3] * 7])
    arrays, do = draw(1, ids.shape[1], ids.shape[1], 4, 2, sinks=True)
    do = np.where((ids != 0)[:, :, None, None], do, 0)
    names = ("q", "k", "v")
    settings = {"method": method, "block_size": 4, "window": 5}
    o, gradients = run(arrays, {"segment_ids": ids}, do, **settings)
    for document in (0, 1, 2, 3):
        own = np.flatnonzero(ids[0] == document)
        other = np.flatnonzero((ids[0] != document) & (ids[0] != 0))
        changed = {**arrays, **{name: arrays[name].at[:, own].multiply(1e4) for name in names}}
        o_after, gradients_after = run(changed, {"segment_ids": ids}, do, **settings)
        np.testing.assert_array_equal(o[:, other], o_after[:, other])
        for name in names:
            np.testing.assert_array_equal(gradients[name][:, other], gradients_after[name][:, other])
            assert np.isfinite(gradients_after[name]).all()
        assert document == 0 or not np.array_equal(o[:, own], o_after[:, own])


@pytest.mark.parametrize("method", METHODS)
def test_later_tokens_do_not_touch_earlier_ones(method):
    """Wrong if an output depends on its future, by one bit or by any gradient."""
    length, changed_at, read_at = 40, 21, 17
    arrays, _ = draw(2, length, length, 2, 1)
    do = np.zeros((2, length, 2, 4), np.float32)
    do[:, read_at] = 1
    o, gradients = run(arrays, {}, do, method=method, block_size=16)
    changed = {name: array.at[:, changed_at].multiply(1e4) for name, array in arrays.items()}
    after, _ = run(changed, {}, do, method=method, block_size=16)
    np.testing.assert_array_equal(o[:, :changed_at], after[:, :changed_at])
    assert not np.array_equal(o[:, changed_at:], after[:, changed_at:])
    for name in ("q", "k", "v"):
        assert not np.asarray(gradients[name][:, read_at + 1 :]).any(), name


@pytest.mark.parametrize("method", METHODS)
def test_what_sees_nothing_reads_zeros(method):
    """Wrong if a row of padding, or a query with no key in its window, gives a NaN or a gradient."""
    ids = np.asarray([[0] * 8, [1] * 8], np.int32)
    positions = np.tile(np.arange(8, dtype=np.int32), (2, 1))
    arrays, do = draw(2, 8, 8, 2, 2)
    places = {
        "segment_ids": ids,
        "kv_segment_ids": ids,
        "q_positions": positions + 9,
        "kv_positions": positions,
    }
    o, gradients = run(arrays, places, do, method=method, block_size=4, window=6)
    np.testing.assert_array_equal(o[0], 0)
    np.testing.assert_array_equal(o[1, 4:], 0)
    assert np.asarray(o[1, :4]).all()
    for name, gradient in gradients.items():
        np.testing.assert_array_equal(gradient[0], 0, err_msg=name)
        assert np.isfinite(gradient).all()
    np.testing.assert_array_equal(gradients["q"][1, 4:], 0)
    np.testing.assert_array_equal(gradients["k"][1, :4], 0)
