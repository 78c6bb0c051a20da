"""linear_attention: every method, decay and length against a float64 loop with gradients
worked out by hand."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqmodels.ops import LinearAttentionState, linear_attention
from tests.ops import reference_loops
from tests.ops.reference_loops import random_segment_ids, relative_rms

LENGTHS = (1, 2, 3, 7, 16, 63, 64, 65, 129)
CHUNKS = (1, 16, 64)
DECAYS = ("none", "head", "token", "channel")
STRONG = (0.0, -1e-6, -1.0, -50.0, -1e4)
HEADS, WIDTH, VALUES = 2, 8, 12  # K != V on purpose


def _decays(rng, kind, batch, length):
    """The strengths of STRONG, then one -1e4 among -0.3, then 0 and -8 by turns: one a row of the batch."""
    if kind == "none":
        return None
    if kind == "head":
        return np.array([-0.3, -1e4], np.float32)
    rows = [np.full(length, g) for g in STRONG]
    rows.append(np.where(np.arange(length) == length // 2, -1e4, -0.3))
    rows.append(np.where(np.arange(length) % 2, -8.0, 0.0))
    rows = np.stack(rows[:batch]).astype(np.float32)
    if kind == "token":
        return np.repeat(rows[..., None], HEADS, axis=2)
    # Channels of one token differ, the strengths turning from channel to channel.
    turned = np.stack([np.roll(rows, channel, axis=0) for channel in range(WIDTH)], axis=-1)
    return np.repeat(turned[:, :, None], HEADS, axis=2)


def _inputs(rng, kind, length, batch=7, positive=False):
    q, k = (rng.normal(size=(batch, length, HEADS, WIDTH)) for _ in range(2))
    v = rng.normal(size=(batch, length, HEADS, VALUES))
    kv, key_sum = rng.normal(size=(batch, HEADS, WIDTH, VALUES)), rng.uniform(0.1, 1, (batch, HEADS, WIDTH))
    if positive:
        q, k = np.abs(q) + 0.1, np.abs(k) + 0.1
    arrays = [array.astype(np.float32) for array in (q, k, v, kv, key_sum)]
    return *arrays, _decays(rng, kind, batch, length)


def _against_the_loop(method, length, chunk, kind, normalize, packed, dtype):
    rng = np.random.default_rng(length * 100 + chunk)
    q, k, v, kv, key_sum, g = _inputs(rng, kind, length, positive=normalize)
    q, k, v = (np.asarray(jnp.asarray(array, dtype)) for array in (q, k, v))
    key_sum = key_sum if normalize else None
    ids = random_segment_ids(rng, len(q), length) if packed else None
    real = np.ones(q.shape[:2], bool) if ids is None else ids != 0
    cotangents = [rng.normal(size=array.shape) for array in (v, kv)]
    cotangents.append(rng.normal(size=key_sum.shape) if normalize else None)
    cotangents[0] = np.asarray(jnp.asarray(cotangents[0] * real[..., None, None], dtype))
    want, want_gradients = reference_loops.linear_attention(
        q, k, v, g, WIDTH**-0.5, kv, key_sum, ids, cotangents
    )

    marks = None if ids is None else jnp.asarray(ids)
    inputs = {"q": q, "k": k, "v": v, "kv": kv}
    inputs |= {} if g is None else {"log_decay": g}
    inputs |= {"key_sum": key_sum} if normalize else {}

    @jax.jit
    def run(inputs, cotangents):
        def op(inputs):
            inputs = dict(inputs)
            state = LinearAttentionState(inputs.pop("kv"), inputs.pop("key_sum", None))
            return linear_attention(
                **inputs, initial_state=state, normalize=normalize, segment_ids=marks, method=method,
                chunk_size=chunk,
            )  # fmt: skip

        values, pullback = jax.vjp(op, inputs)
        return values, pullback(cotangents)[0]

    of_state = [None if array is None else jnp.asarray(array, jnp.float32) for array in cotangents[1:]]
    (o, state), gradients = run(inputs, (jnp.asarray(cotangents[0], dtype), LinearAttentionState(*of_state)))
    assert o.dtype == dtype and state.kv.dtype == jnp.float32 and np.isfinite(o).all()
    forward, backward = (1e-5, 1e-4) if dtype == "float32" else (2e-2, 2e-2)
    got = {"o": np.where(real[..., None, None], o, 0), "final kv": state.kv, "final key_sum": state.key_sum}
    for name, wanted in zip(got, want, strict=True):
        error = 0 if wanted is None else relative_rms(got[name], wanted)
        assert error <= forward, (name, error)
    for name, wanted in want_gradients.items():
        error = relative_rms(gradients[name], wanted)
        assert error <= backward, (name, error)
    if packed:
        assert np.asarray(state.kv[-1]).tobytes() == kv[-1].tobytes()


def _cover():
    """Every (length, chunk); decay, normaliser, packing and dtype cycle so that each
    meets each length and chunk."""
    for row, length in enumerate(LENGTHS):
        for column, chunk in enumerate(CHUNKS):
            index = row + column
            kind = DECAYS[(row + 2 * column + row // 4) % 4]
            yield length, chunk, kind, bool(index % 2), bool((index // 2 + column) % 2), index % 3 == 2


@pytest.mark.parametrize(("length", "chunk", "kind", "normalize", "packed", "half"), list(_cover()))
def test_chunked_equals_the_loop(length, chunk, kind, normalize, packed, half):
    """Wrong here: an exponent that overflows, a lost term of a tail chunk, a state that
    skips a border in a chunk."""
    _against_the_loop("chunked", length, chunk, kind, normalize, packed, "bfloat16" if half else "float32")


# The associative scan itself, which compiles slowly, meets every length in the tests of linear_recurrence.
OTHERS = [(method, length) for method in ("sequential", "parallel") for length in LENGTHS]
OTHERS += [("associative", length) for length in (1, 2, 3, 7, 16, 65)]


@pytest.mark.parametrize(("method", "length"), OTHERS)
def test_other_methods_equal_the_loop(method, length):
    """Wrong here: two methods that a config may choose between do not compute the same thing."""
    index = LENGTHS.index(length)
    kind = DECAYS[index % (3 if method == "parallel" else 4)]
    half = index % 4 == 3
    dtype = "bfloat16" if half else "float32"
    _against_the_loop(method, length, 64, kind, bool(index % 2), index % 3 != 1, dtype)


@pytest.mark.parametrize("kind", DECAYS)
def test_one_token_in_closed_form(kind):
    """Wrong here: decoding token by token differs from the rule itself."""
    _against_the_loop("auto", 1, 64, kind, kind == "token", kind == "channel", "float32")


METHODS = ("sequential", "associative", "chunked", "parallel")


@pytest.mark.parametrize("method", METHODS)
def test_worked_example_to_the_digit(method):
    """Wrong here: the output reads the state before its own token is written, or the
    normaliser is another sum."""
    k = jnp.asarray([[1.0, 0], [0, 1], [1, 0]])[None, :, None]
    v = jnp.asarray([[2.0, 0], [0, 3], [1, 1]])[None, :, None]
    states = ([[2, 0], [0, 0]], [[2, 0], [0, 3]], [[3, 1], [0, 3]])
    for tokens, state in enumerate(states, start=1):
        final = linear_attention(k[:, :tokens], k[:, :tokens], v[:, :tokens], method=method)[1]
        assert final.kv[0, 0].tolist() == state

    def read(query, **options):
        q = jnp.broadcast_to(jnp.asarray(query), k.shape)
        o, final = linear_attention(q, k, v, method=method, **options)
        return o[0, 2, 0].tolist(), final

    assert read([1.0, 0], scale=1.0)[0] == [3, 1]
    assert read([0.0, 1], scale=1.0)[0] == [0, 3]
    assert read([1.0, 1], scale=1.0)[0] == [3, 4]
    o, final = read([1.0, 0], normalize=True)
    assert o == [1.5, 0.5] and final.key_sum[0, 0].tolist() == [2, 1]


@pytest.mark.parametrize("method", METHODS)
def test_a_vanishing_denominator_gives_zero_and_zero_gradients(method):
    """Wrong here: relu features whose first key and query do not overlap read 0 / 0, and
    NaN spreads by gradient."""
    k = jnp.asarray([[1.0, 0], [1e-7, 0], [0, 1]])[None, :, None]
    q = jnp.asarray([[0.0, 1], [0, 1], [1, 1]])[None, :, None]
    v = jnp.asarray([[2.0, 5], [7, 3], [1, 1]])[None, :, None]

    def run(q, k, v):
        o = linear_attention(q, k, v, normalize=True, method=method, chunk_size=2)[0]
        return o[:, :2].sum(), o

    (_, o), gradients = jax.value_and_grad(run, (0, 1, 2), has_aux=True)(q, k, v)
    assert (o[0, :2] == 0).all() and (o[0, 2] > 0).all()
    assert all((gradient == 0).all() for gradient in gradients)
    assert np.isnan(run(q.at[0, 2].set(jnp.nan), k, v)[1][0, 2]).all(), "NaN must stay NaN, not become 0"


def test_scale_cancels_under_the_normaliser_and_defaults_to_the_root():
    """Wrong here: scale is applied to the sum but not to the denominator, or twice."""
    q, k, v, *_ = _inputs(np.random.default_rng(0), "none", 5, batch=1, positive=True)
    run = lambda **options: np.asarray(linear_attention(q, k, v, **options)[0])  # noqa: E731
    np.testing.assert_array_equal(run(normalize=True), run(normalize=True, scale=7.0))
    np.testing.assert_allclose(run(scale=1.0), run() * WIDTH**0.5, rtol=1e-6)


@pytest.mark.parametrize("kind", ["token", "channel"])
def test_strong_decay_leaves_the_current_token_alone(kind):
    """Wrong here: with log decay -30, or -inf, anything older than the current token is still read."""
    q, k, v, *_ = _inputs(np.random.default_rng(1), "none", 33, batch=2)
    shape = q.shape[:3] if kind == "token" else q.shape
    want = WIDTH**-0.5 * np.einsum("bthk,bthk->bth", q, k)[..., None] * v

    @partial(jax.jit, static_argnames="method")
    def run(q, k, v, g, method):
        def op(q, k, v, g):
            return linear_attention(q, k, v, log_decay=g, method=method, chunk_size=16)[0]

        o, pullback = jax.vjp(op, q, k, v, g)
        return o, pullback(jnp.ones_like(o))

    for strength in (-30.0, -jnp.inf):
        for method in ("sequential", "chunked"):
            o, gradients = run(q, k, v, jnp.full(shape, strength, jnp.float32), method)
            assert relative_rms(o, want) <= 1e-5
            assert all(np.isfinite(gradient).all() for gradient in gradients)


def test_a_row_longer_than_sixteen_bits_of_tokens():
    """Wrong here: tokens past 65,536 are ignored."""
    rng = np.random.default_rng(6)
    q, k, v = (rng.normal(size=(1, 65537, 1, 8)).astype(np.float32) for _ in range(3))
    o, final = linear_attention(q, k, v)
    want = np.einsum("bthk,bthv->bhkv", k.astype(np.float64), v.astype(np.float64))
    assert relative_rms(final.kv, want) <= 1e-5
    assert relative_rms(o[:, -1], 8**-0.5 * np.einsum("bhk,bhkv->bhv", q[:, -1], want)) <= 1e-5


@pytest.mark.parametrize("kind", ["none", "token", "channel"])
def test_memory_grows_linearly_and_no_state_stands_for_every_token(kind):
    """Wrong here: the default form keeps [B, T, H, K, V], or what a chunk needs for all chunks at once."""
    rng = np.random.default_rng(7)

    def temporaries(length):
        q, k, v, _, _, g = _inputs(rng, kind, length, batch=2)

        def loss(q, k, v, g):
            return (linear_attention(q, k, v, log_decay=g, chunk_size=16)[0] ** 2).sum()

        argnums = (0, 1, 2) if g is None else (0, 1, 2, 3)
        compiled = jax.jit(jax.grad(loss, argnums)).lower(q, k, v, g).compile()
        text = compiled.as_text()
        assert f"{length},{HEADS},{WIDTH},{VALUES}" not in text and f"{HEADS},{length},{length}" not in text
        return compiled.memory_analysis().temp_size_in_bytes

    short, long = temporaries(512), temporaries(1024)
    assert long <= 2.2 * short


@pytest.mark.parametrize("kind", ["none", "token", "channel"])
@pytest.mark.parametrize("method", ["auto", "sequential", "chunked"])
def test_heads_may_share_queries_and_keys(method, kind):
    """Wrong here: shared products meet another head's decay, or lose the gradient of all heads but one."""
    length = 1 if method == "auto" else 21
    rng = np.random.default_rng(0)
    q, k, v, kv, _, g = _inputs(rng, kind, length, batch=3)
    ids = random_segment_ids(rng, 3, length)
    cotangent = rng.normal(size=v.shape).astype(np.float32)

    @jax.jit
    def outcome(q, k, v, g):
        def run(q, k, v, g):
            o, final = linear_attention(
                q, k, v, log_decay=g, initial_state=LinearAttentionState(kv), segment_ids=ids, method=method,
                chunk_size=8,
            )  # fmt: skip
            return o, final.kv

        (o, final), pull = jax.vjp(run, q, k, v, g)
        return o, final, *pull((cotangent, jnp.ones_like(final)))

    q, k = q[:, :, :1], k[:, :, :1]
    got = outcome(q, k, v, g)
    want = list(outcome(*(np.repeat(array, HEADS, axis=2) for array in (q, k)), v, g))
    want[2:4] = (gradient.sum(axis=2, keepdims=True) for gradient in want[2:4])
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert one.shape == other.shape
        assert relative_rms(one, other) <= 1e-6


STATE = jnp.ones((2, 3, 8, 8))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"method": "blockwise"}, "method is 'blockwise'; it offers auto, sequential, associative, chunked"),
        ({"chunk_size": 0}, "chunk_size is 0, expected at least 1"),
        ({"q": jnp.ones((2, 4, 8))}, r"q has shape \(2, 4, 8\), expected \[B, T, H, K\]"),
        ({"k": jnp.ones((2, 4, 1, 8))}, r"k has shape .*, expected \[B, T, H, K\] = \(2, 4, 3, 8\)"),
        ({"v": jnp.ones((2, 5, 3, 8))}, r"v has shape \(2, 5, 3, 8\)"),
        ({"log_decay": jnp.ones((2, 4))}, r"log_decay has shape \(2, 4\), expected \[H\] = \(3,\), "),
        ({"log_decay": -jnp.ones((2, 4, 3, 8)), "method": "parallel"}, "has no parallel form"),
        ({"segment_ids": jnp.ones((4, 2), jnp.int32)}, r"segment_ids has shape \(4, 2\)"),
        ({"initial_state": LinearAttentionState(jnp.ones((2, 3, 8)))}, r"initial_state.kv has shape"),
        ({"initial_state": LinearAttentionState(STATE), "normalize": True}, "key_sum is None, but normalize"),
        ({"initial_state": LinearAttentionState(STATE, STATE[..., 0])}, "key_sum is given, but normalize"),
    ],
)
def test_wrong_arguments_are_refused_in_one_sentence(change, words):
    """Wrong here: a wrong shape is broadcast in silence, or fails deep inside with a
    message about something else."""
    ones = jnp.ones((2, 4, 3, 8))
    arguments = {"q": ones, "k": ones, "v": ones, **change}
    with pytest.raises(ValueError, match=words):
        linear_attention(arguments.pop("q"), arguments.pop("k"), arguments.pop("v"), **arguments)
