"""delta_rule and dplr across documents, pieces and chunks: what one token may and may not reach."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.ops.delta_cases import HEADS, OPS, VALUES, WIDTH, near, pulled_back, unit

FORMS = [("delta_rule", "chunked", kind) for kind in ("none", "head", "token", "channel")]
FORMS += [
    ("delta_rule", "sequential", "token"),
    ("dplr", "chunked", "channel"),
    ("dplr", "sequential", "channel"),
]
CHUNKED = [form for form in FORMS if form[1] == "chunked" and form[2] != "head"]


def _inputs(rng, op, kind, length, batch):
    """Arguments by name, as numpy arrays; what is written and read differs from token to token."""
    shape = (batch, length, HEADS, WIDTH)
    share = rng.uniform(0.2, 1.8, size=shape[:3])
    arrays = {"q": rng.normal(size=shape), "k": unit(rng.normal(size=shape))}
    arrays["v"] = rng.normal(size=(*shape[:3], VALUES))
    if op == "dplr":
        direction = unit(rng.normal(size=shape))
        arrays |= {"a": -direction, "b": 0.5 * share[..., None] * direction}
    else:
        arrays["beta"] = share
    if kind != "none":
        of_kind = {"head": (HEADS,), "token": shape[:3], "channel": shape}[kind]
        arrays["log_decay"] = -rng.exponential(0.3, size=of_kind)
    arrays["initial_state"] = rng.normal(size=(batch, HEADS, WIDTH, VALUES))
    return {name: np.asarray(array, np.float32) for name, array in arrays.items()}


def _changed(arrays, where, value):
    """The arrays of every token with `value` of the old entries at `where`, bool [B, T]."""
    by_token = {name for name, array in arrays.items() if array.shape[:2] == where.shape}
    by_token -= {"initial_state"}

    def at(array):
        return np.where(where.reshape(where.shape + (1,) * (array.ndim - 2)), value(array), array)

    return {name: at(array) if name in by_token else array for name, array in arrays.items()}


@pytest.mark.parametrize(("op", "method", "kind"), FORMS)
def test_documents_and_padding_do_not_touch_others_by_a_bit(op, method, kind):
    """Wrong here: a border inside a chunk lets one document change the bits of another, or
    of its gradients; or padding, whatever stands there, moves a bit of what surrounds it."""
    rng = np.random.default_rng(2)
    arrays = _inputs(rng, op, kind, 40, batch=2)
    ids = np.repeat([[0] * 3 + [4] * 8 + [0] * 2 + [7] * 6 + [0] + [7] * 7 + [9] * 13], 2, axis=0)
    ids = ids.astype(np.int32)
    of_o = np.where((ids != 0)[..., None, None], rng.normal(size=arrays["v"].shape), 0).astype(np.float32)
    of_state = rng.normal(size=arrays["initial_state"].shape).astype(np.float32)

    def run(arrays):
        return pulled_back(arrays, ids, (of_o, of_state), op=op, method=method, chunk_size=16)

    def changed(name):
        """Anything at padding; in a document what keeps its state within bounds."""
        value = (lambda array: np.float32(-100)) if name == 0 else (lambda array: array / 2)
        return run(_changed(arrays, ids == name, value))

    (o, state), gradients = run(arrays)
    for name in (0, 7):
        (other_o, other_state), other = changed(name)
        rest = (ids != name) & (ids != 0)
        np.testing.assert_array_equal(np.asarray(o)[rest], np.asarray(other_o)[rest])
        np.testing.assert_array_equal(state, other_state)
        for argument, gradient in gradients.items():
            if gradient.shape[:2] == ids.shape:
                left, right = np.asarray(gradient)[rest], np.asarray(other[argument])[rest]
                np.testing.assert_array_equal(left, right, err_msg=argument)
        assert np.isfinite(other_o).all()
        assert name == 0 or not np.array_equal(np.asarray(o)[ids == 7], np.asarray(other_o)[ids == 7])


@pytest.mark.parametrize(("op", "method", "kind"), CHUNKED)
def test_causal_both_ways(op, method, kind):
    """Wrong here: a later token changes an earlier output by a bit, or receives a gradient from it."""
    rng = np.random.default_rng(3)
    arrays = _inputs(rng, op, kind, 32, batch=2)
    of_o, nothing = np.zeros(arrays["v"].shape, np.float32), np.zeros_like(arrays["initial_state"])
    of_o[:, 5] = 1

    def run(arrays):
        return pulled_back(arrays, None, (of_o, nothing), op=op, method=method, chunk_size=8)

    (o, _), gradients = run(arrays)
    later = np.broadcast_to(np.arange(32) == 10, (2, 32))
    (other, _), _ = run(_changed(arrays, later, lambda array: array - 0.5))
    np.testing.assert_array_equal(o[:, :10], other[:, :10])
    assert not np.array_equal(o[:, 10:], other[:, 10:])
    for name, gradient in gradients.items():
        assert gradient.shape[1] != 32 or not np.asarray(gradient[:, 6:]).any(), name


@pytest.mark.parametrize(("op", "method", "kind"), CHUNKED)
def test_reading_in_pieces_equals_reading_at_once(op, method, kind):
    """Wrong here: a state handed over in the middle of a document is not the state inside a longer call."""
    arrays = _inputs(np.random.default_rng(4), op, kind, 40, batch=3)
    ids = np.ones((3, 40), np.int32)
    # Padding at the left, inside a document, and a document that begins inside a piece.
    ids[0, :3], ids[1, 5:9], ids[2, 21:] = 0, 0, 2
    state = arrays.pop("initial_state")
    run = jax.jit(lambda arrays, ids, state: OPS[op](**arrays, initial_state=state, segment_ids=ids))
    whole, final = run(arrays, ids, state)
    pieces = []
    for left, right in ((0, 1), (1, 17), (17, 40)):
        cut = {n: array[:, left:right] if array.ndim > 1 else array for n, array in arrays.items()}
        o, state = run(cut, ids[:, left:right], state)
        pieces.append(o)
    real = (ids != 0)[..., None, None]
    near(np.where(real, np.concatenate(pieces, axis=1), 0), np.where(real, whole, 0), 1e-5, "o")
    near(state, final, 1e-5, "final state")


@pytest.mark.parametrize(("op", "kind"), [("delta_rule", "token"), ("dplr", "channel")])
def test_packed_equals_separate_with_gradients(op, kind):
    """Wrong here: the same documents cost another loss or another gradient once they share a row."""
    arrays = _inputs(np.random.default_rng(5), op, kind, 16, batch=4)
    del arrays["initial_state"]

    def loss(arrays, ids=None):
        return (jnp.sin(OPS[op](**arrays, segment_ids=ids, chunk_size=10)[0]) ** 2).sum()

    both = jax.jit(jax.value_and_grad(loss))
    value, gradients = both(arrays)
    rows = {name: array.reshape(1, 64, *array.shape[2:]) for name, array in arrays.items()}
    packed, of_rows = both(rows, jnp.asarray(np.repeat([1, 2, 3, 4], 16)[None], jnp.int32))
    np.testing.assert_allclose(packed, value, rtol=1e-5)
    for name, gradient in gradients.items():
        near(of_rows[name].reshape(gradient.shape), gradient, 1e-5, name)
