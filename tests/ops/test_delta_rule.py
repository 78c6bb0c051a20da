"""delta_rule: every method, decay and length against a float64 loop with gradients worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqmodels.ops import delta_rule
from tests.ops.delta_cases import (
    CHUNKS,
    DECAYS,
    HEADS,
    LENGTHS,
    VALUES,
    WIDTH,
    against_the_loop,
    compared,
    cover,
    inputs,
)
from tests.ops.reference_loops import relative_rms

METHODS = ("sequential", "chunked")


@pytest.mark.parametrize(("length", "chunk", "kind", "packed", "dtype"), list(cover()))
def test_chunked_equals_the_loop(length, chunk, kind, packed, dtype):
    """Wrong here: an exponent that overflows, a lost term of a tail chunk, a correction
    that misses what a token of the same chunk wrote."""
    against_the_loop("delta_rule", "chunked", length, chunk, kind, packed, dtype)


@pytest.mark.parametrize("length", LENGTHS)
def test_sequential_equals_the_loop(length):
    """Wrong here: two methods that a config may choose between do not compute the same thing."""
    index = LENGTHS.index(length)
    dtype = "bfloat16" if index % 4 == 3 else "float32"
    against_the_loop("delta_rule", "sequential", length, 32, DECAYS[index % 4], index % 3 != 1, dtype)


@pytest.mark.parametrize("kind", DECAYS)
def test_one_token_in_closed_form(kind):
    """Wrong here: decoding token by token differs from the rule itself."""
    against_the_loop("delta_rule", "auto", 1, 32, kind, kind == "channel", "float32")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("chunk_size", CHUNKS)
def test_one_key_for_all_tokens(method, chunk_size):
    """Wrong here: keys that repeat, corrected by twice their error, grow in the inverse of
    a chunk's triangle until rounding is all that is left of the digits."""
    rng = np.random.default_rng(0)
    arrays = inputs("delta_rule", rng, "none", 129)
    arrays["k"][:] = arrays["k"][:, :1]
    compared("delta_rule", arrays, None, rng, method=method, chunk_size=chunk_size)


@pytest.mark.parametrize("method", METHODS)
def test_a_key_reads_what_was_written_last(method):
    """Wrong here: with unit keys and beta 1 the old value is not overwritten to the digit,
    or beta 1/2 does not leave a quarter of the first value and half of the second."""
    k = jnp.zeros((1, 2, 1, 4)).at[..., 1].set(1)
    v = jnp.asarray([[3.0, -1, 7], [0.5, 4, 9]])[None, :, None]
    for beta, wanted in ((1.0, v[0, 1, 0]), (0.5, v[0, 0, 0] / 4 + v[0, 1, 0] / 2)):
        o, state = delta_rule(k, k, v, jnp.full((1, 2, 1), beta), scale=1.0, method=method)
        assert o[0, 1, 0].tolist() == wanted.tolist() == state[0, 0, 1].tolist()
        assert not np.asarray(state[0, 0, jnp.array([0, 2, 3])]).any()


def _all_but_decay(length=40):
    arrays = inputs("delta_rule", np.random.default_rng(3), "none", length)
    return {name: array for name, array in arrays.items() if name != "initial_state"}


@pytest.mark.parametrize("method", METHODS)
def test_decays_of_zero_are_no_decay_and_equal_channels_are_one_decay(method):
    """Wrong here: KimiDeltaAttention with equal channels is not GatedDeltaNet, or that
    without decay not DeltaNet."""
    arrays = _all_but_decay()
    shape = arrays["q"].shape
    rng = np.random.default_rng(4)
    run = jax.jit(lambda g: delta_rule(**arrays, log_decay=g, method=method, chunk_size=16))
    plain = run(None)
    for zeros in (np.zeros(HEADS), np.zeros(shape[:3]), np.zeros(shape)):
        for got, want in zip(run(zeros.astype(np.float32)), plain, strict=True):
            assert relative_rms(got, want) <= 1e-6
    by_head = -rng.exponential(size=HEADS).astype(np.float32)
    by_token = -rng.exponential(size=shape[:3]).astype(np.float32)
    for fewer, more in ((by_head, shape[:3]), (by_token[..., None], shape)):
        spread = np.broadcast_to(fewer, more)
        given = fewer if fewer.ndim == 1 else fewer[..., 0]
        for got, want in zip(run(spread), run(given), strict=True):
            assert relative_rms(got, want) <= 1e-5


@pytest.mark.parametrize("method", METHODS)
def test_without_correction_the_state_decays_and_nothing_else(method):
    """Wrong here: beta 0 still writes, or decay acts after the read."""
    arrays = _all_but_decay(20) | {"beta": np.zeros((4, 20, HEADS), np.float32)}
    rng = np.random.default_rng(5)
    g = -0.1 * rng.exponential(size=arrays["q"].shape).astype(np.float32)
    start = rng.normal(size=(4, HEADS, WIDTH, VALUES)).astype(np.float32)
    o, state = delta_rule(**arrays, log_decay=g, initial_state=start, method=method, chunk_size=8)
    decayed = np.exp(np.cumsum(g.astype(np.float64), axis=1))[..., None] * start[:, None]
    assert relative_rms(state, decayed[:, -1]) <= 1e-5
    assert relative_rms(o, WIDTH**-0.5 * np.einsum("bthk,bthkv->bthv", arrays["q"], decayed)) <= 1e-5


@pytest.mark.parametrize("kind", ["none", "token", "channel"])
def test_memory_grows_linearly_and_no_state_stands_for_every_token(kind):
    """Wrong here: the default form keeps [B, T, H, K, V], or what a chunk needs for all chunks at once."""
    rng = np.random.default_rng(7)

    def temporaries(length):
        arrays = inputs("delta_rule", rng, kind, length)

        def loss(arrays):
            return (delta_rule(**arrays, chunk_size=16)[0] ** 2).sum()

        compiled = jax.jit(jax.grad(loss)).lower(arrays).compile()
        text = compiled.as_text()
        assert f"{length},{HEADS},{WIDTH},{VALUES}" not in text and f"{HEADS},{length},{length}" not in text
        return compiled.memory_analysis().temp_size_in_bytes

    short, long = temporaries(512), temporaries(1024)
    assert long <= 2.2 * short


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"method": "parallel"}, "method is 'parallel'; it offers auto, sequential, chunked"),
        ({"chunk_size": 0}, "chunk_size is 0, expected at least 1"),
        ({"q": jnp.ones((2, 4, 8))}, r"q has shape \(2, 4, 8\), expected \[B, T, H, K\]"),
        ({"k": jnp.ones((2, 4, 1, 8))}, r"k has shape .*, expected \[B, T, H, K\] = \(2, 4, 3, 8\)"),
        ({"v": jnp.ones((2, 5, 3, 8))}, r"v has shape \(2, 5, 3, 8\)"),
        ({"beta": jnp.ones((2, 4, 3, 1))}, r"beta has shape .*, expected \[B, T, H\] = \(2, 4, 3\)"),
        ({"log_decay": jnp.ones((2, 4))}, r"log_decay has shape \(2, 4\), expected \[H\] = \(3,\), "),
        ({"segment_ids": jnp.ones((4, 2), jnp.int32)}, r"segment_ids has shape \(4, 2\)"),
        ({"initial_state": jnp.ones((2, 3, 8))}, r"initial_state has shape .*, expected \[B, H, K, V\]"),
    ],
)
def test_wrong_arguments_are_refused_in_one_sentence(change, words):
    """Wrong here: a wrong shape is broadcast in silence, or fails deep inside with a
    message about something else."""
    ones = jnp.ones((2, 4, 3, 8))
    with pytest.raises(ValueError, match=words) as error:
        delta_rule(**{"q": ones, "k": ones, "v": ones, "beta": ones[..., 0], **change})
    assert str(error.value).startswith("delta_rule: ") and str(error.value).endswith(".")
