"""linear_attention across documents, pieces and chunks: what one token may and may not reach."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqmodels.ops import LinearAttentionState, linear_attention
from tests.ops.reference_loops import relative_rms

DECAYS = ("none", "head", "token", "channel")
FORMS = [("chunked", kind) for kind in DECAYS]
FORMS += [("parallel", "none"), ("parallel", "token"), ("sequential", "channel"), ("associative", "channel")]
HEADS, WIDTH, VALUES = 2, 8, 12


def _inputs(rng, kind, length, batch):
    """q, k, v, kv and log_decay as numpy arrays; keys and queries are positive."""
    q, k = (rng.uniform(0.1, 1, size=(batch, length, HEADS, WIDTH)) for _ in range(2))
    v, kv = rng.normal(size=(batch, length, HEADS, VALUES)), rng.normal(size=(batch, HEADS, WIDTH, VALUES))
    shape = {"none": (), "head": (HEADS,), "token": q.shape[:3], "channel": q.shape}[kind]
    g = None if kind == "none" else -rng.exponential(0.3, size=shape).astype(np.float32)
    return *(array.astype(np.float32) for array in (q, k, v, kv)), g


@pytest.mark.parametrize(("method", "kind"), FORMS)
def test_documents_do_not_touch_each_other_by_a_bit(method, kind):
    """Wrong here: a border inside a chunk lets one document change the bits of another,
    or of its gradients."""
    rng = np.random.default_rng(2)
    q, k, v, kv, g = _inputs(rng, kind, 40, batch=2)
    ids = jnp.asarray(np.repeat([[4] * 11 + [0] * 2 + [7] * 14 + [9] * 13], 2, axis=0), jnp.int32)

    @jax.jit
    def run(q, k, v, g):
        def op(q, k, v):
            return linear_attention(
                q, k, v, log_decay=g, segment_ids=ids, method=method, chunk_size=16,
                initial_state=LinearAttentionState(kv),
            )[0]  # fmt: skip

        o, pullback = jax.vjp(op, q, k, v)
        return o, *pullback(jnp.cos(o))

    base = run(q, k, v, g)
    middle = slice(13, 27)
    changed = []
    for array in (q, k, v, g):
        if array is not None and array.ndim > 1:
            array = array.copy()
            array[:, middle] = -100 * np.abs(rng.normal(size=array[:, middle].shape))
        changed.append(array)
    other = run(*changed)
    for name, left, right in zip(("o", "dq", "dk", "dv"), base, other, strict=True):
        for part in (slice(0, 11), slice(27, 40)):
            np.testing.assert_array_equal(np.asarray(left[:, part]), np.asarray(right[:, part]), err_msg=name)
        assert not np.array_equal(left[:, middle], right[:, middle])


@pytest.mark.parametrize("kind", ["none", "token", "channel"])
def test_causal_both_ways(kind):
    """Wrong here: a later token changes an earlier output by a bit, or receives a gradient from it."""
    rng = np.random.default_rng(3)
    q, k, v, _, g = _inputs(rng, kind, 32, batch=2)
    run = jax.jit(lambda q, k, v: linear_attention(q, k, v, log_decay=g, chunk_size=5)[0])
    base, changed = run(q, k, v), [array.copy() for array in (q, k, v)]
    for array in changed:
        array[:, 10] += 3
    np.testing.assert_array_equal(base[:, :10], run(*changed)[:, :10])
    gradients = jax.jit(jax.grad(lambda *inputs: run(*inputs)[:, 5].sum(), (0, 1, 2)))(q, k, v)
    assert all((gradient[:, 6:] == 0).all() for gradient in gradients)


@pytest.mark.parametrize("kind", ["none", "channel"])
def test_reading_in_pieces_equals_reading_at_once(kind):
    """Wrong here: a state handed over in the middle of a document is not the state inside a longer call."""
    q, k, v, _, g = _inputs(np.random.default_rng(4), kind, 40, batch=3)
    ids = np.ones((3, 40), np.int32)
    # Padding at the left, inside a document, and a document that begins with a piece, the next
    # one inside a piece.
    ids[0, :3], ids[1, 5:9], ids[2, 17:30], ids[2, 30:] = 0, 0, 2, 3

    @jax.jit
    def run(q, k, v, g, ids, state):
        return linear_attention(
            q, k, v, log_decay=g, normalize=True, initial_state=state, segment_ids=ids, chunk_size=16
        )

    empty = LinearAttentionState(jnp.zeros((3, HEADS, WIDTH, VALUES)), jnp.zeros((3, HEADS, WIDTH)))
    whole, final = run(q, k, v, g, ids, empty)
    state, pieces = empty, []
    for left, right in ((0, 1), (1, 17), (17, 40)):
        if left == 17:
            # An op knows no ids beyond its row: whoever calls it empties the state for a new document.
            state = jax.tree.map(lambda array: array.at[2].set(0), state)
        part = slice(left, right)
        o, state = run(
            q[:, part], k[:, part], v[:, part], g[:, part] if g is not None and g.ndim > 1 else g,
            ids[:, part], state,
        )  # fmt: skip
        pieces.append(o)
    real = (ids != 0)[..., None, None]
    got = np.where(real, np.concatenate(pieces, axis=1), 0)
    np.testing.assert_allclose(got, np.where(real, whole, 0), rtol=2e-5, atol=2e-6)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6), state, final)


def test_packed_equals_separate_with_gradients():
    """Wrong here: the same documents cost another loss or another gradient once they share a row."""
    rng = np.random.default_rng(5)
    q, k, v, _, g = _inputs(rng, "token", 16, batch=4)
    ids = jnp.asarray(np.repeat([1, 2, 3, 4], 16)[None], jnp.int32)

    def loss(q, k, v, g, ids=None):
        o = linear_attention(q, k, v, log_decay=g, segment_ids=ids, chunk_size=10)[0]
        return (jnp.sin(o) ** 2).sum()

    gradients = jax.jit(jax.value_and_grad(loss, (0, 1, 2, 3)))
    separate = gradients(q, k, v, g)
    row = [array.reshape(1, 64, *array.shape[2:]) for array in (q, k, v, g)]
    packed = gradients(*row, ids)
    np.testing.assert_allclose(packed[0], separate[0], rtol=1e-6)
    for left, right in zip(packed[1], separate[1], strict=True):
        assert relative_rms(np.asarray(left).reshape(right.shape), right) <= 1e-5
