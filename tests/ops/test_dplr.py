"""dplr: every method and length against a float64 loop with gradients worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqmodels.ops import LinearAttentionState, delta_rule, dplr, linear_attention
from tests.ops.delta_cases import HEADS, LENGTHS, VALUES, WIDTH, against_the_loop, cover, inputs, pulled_back
from tests.ops.reference_loops import relative_rms

METHODS = ("sequential", "chunked")


# Chunks of 64 compile for a quarter of a minute: of those, one length is quick enough to run always.
CASES = [
    pytest.param(
        length,
        chunk,
        packed,
        dtype,
        marks=pytest.mark.slow if chunk == 64 and length > 16 and length != 65 else [],
    )
    for length, chunk, _, packed, dtype in cover()
]


@pytest.mark.parametrize(("length", "chunk", "packed", "dtype"), CASES)
def test_chunked_equals_the_loop(length, chunk, packed, dtype):
    """Wrong here: an exponent that overflows, a lost term of a tail chunk, a read that
    misses what a token of the same chunk wrote, or meets its own token's decay."""
    against_the_loop("dplr", "chunked", length, chunk, "channel", packed, dtype)


@pytest.mark.parametrize("length", LENGTHS)
def test_sequential_equals_the_loop(length):
    """Wrong here: two methods that a config may choose between do not compute the same thing."""
    index = LENGTHS.index(length)
    dtype = "bfloat16" if index % 4 == 3 else "float32"
    against_the_loop("dplr", "sequential", length, 16, "channel", bool(index % 2), dtype)


@pytest.mark.parametrize("packed", [False, True])
def test_one_token_in_closed_form(packed):
    """Wrong here: decoding token by token differs from the rule itself."""
    against_the_loop("dplr", "auto", 1, 16, "channel", packed, "float32")


@pytest.mark.parametrize("method", METHODS)
def test_the_low_rank_term_reads_the_state_before_its_decay(method):
    """Wrong here: by these numbers, a reads what is left after the decay, or after the token's own write."""
    ones = jnp.ones((1, 1, 1, 1))
    o, state = dplr(
        ones, 10 * ones, ones, ones, 3 * ones, log_decay=jnp.log(ones / 2), scale=1.0,
        initial_state=8 * ones, method=method,
    )  # fmt: skip
    # Half of 8 stays, 3 * 8 is added for what a reads, and 10 is written.
    np.testing.assert_allclose(state, 38 * ones, rtol=1e-6)
    np.testing.assert_allclose(o, state, rtol=1e-6)


def _close(got, want):
    for one, other in zip(got, want, strict=True):
        assert relative_rms(one, other) <= 1e-5


@pytest.mark.parametrize("method", METHODS)
def test_the_delta_rule_and_linear_attention_are_special_cases(method):
    """Wrong here: of three equations that say the same, two disagree."""
    rng = np.random.default_rng(3)
    arrays = inputs("delta_rule", rng, "channel", 40)
    q, k, v, beta, g, state = (arrays[name] for name in ("q", "k", "v", "beta", "log_decay", "initial_state"))
    options = {"log_decay": g, "initial_state": state, "method": method, "chunk_size": 16}
    share = beta[..., None] * k
    _close(dplr(q, share, v, np.exp(g) * k, -share, **options), delta_rule(q, k, v, beta, **options))
    o, final = dplr(q, k, v, k, np.zeros_like(k), **options)
    want, kept = linear_attention(q, k, v, **options | {"initial_state": LinearAttentionState(state)})
    _close((o, final), (want, kept.kv))


@pytest.mark.slow
def test_forms_agree_where_reads_nearly_repeat():
    """Wrong here: with one direction read and written by every token, rounding grows in
    the inverse of a chunk's triangle."""
    rng = np.random.default_rng(5)
    arrays = inputs("dplr", rng, "channel", 129)
    for name in ("a", "b"):
        arrays[name][:] = arrays[name][:, :1]
    arrays["log_decay"][:] = -1e-3 * rng.exponential(size=arrays["log_decay"].shape)
    cotangents = tuple(rng.normal(size=arrays[name].shape).astype("f4") for name in ("v", "initial_state"))
    runs = [
        pulled_back(arrays, None, cotangents, op="dplr", method=method, chunk_size=64) for method in METHODS
    ]
    for one, other in zip(*map(jax.tree.leaves, runs), strict=True):
        assert relative_rms(one, other) <= 1e-4


def test_memory_grows_linearly_and_no_state_stands_for_every_token():
    """Wrong here: the default form keeps [B, T, H, K, V], or what a chunk needs for all chunks at once."""

    def temporaries(length):
        arrays = inputs("dplr", np.random.default_rng(7), "channel", length)

        def loss(arrays):
            return (dplr(**arrays)[0] ** 2).sum()

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
        ({"a": jnp.ones((2, 4, 3))}, r"a has shape \(2, 4, 3\)"),
        ({"b": jnp.ones((2, 4, 3, 7))}, r"b has shape \(2, 4, 3, 7\)"),
        ({"log_decay": jnp.ones((2, 4, 3))}, r"log_decay has shape .*, expected \[B, T, H, K\]"),
        ({"segment_ids": jnp.ones((4, 2), jnp.int32)}, r"segment_ids has shape \(4, 2\)"),
        ({"initial_state": jnp.ones((2, 3, 8))}, r"initial_state has shape .*, expected \[B, H, K, V\]"),
    ],
)
def test_wrong_arguments_are_refused_in_one_sentence(change, words):
    """Wrong here: a wrong shape is broadcast in silence, or fails deep inside with a
    message about something else."""
    given = dict.fromkeys(("q", "k", "v", "a", "b", "log_decay"), jnp.ones((2, 4, 3, 8)))
    with pytest.raises(ValueError, match=words) as error:
        dplr(**{**given, **change})
    assert str(error.value).startswith("dplr: ") and str(error.value).endswith(".")
