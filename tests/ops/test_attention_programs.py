"""What softmax attention compiles to, which blocks it skips, what it refuses, and published vectors."""

import json
import os
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqmodels.ops import softmax_attention
from seqmodels.ops.attention_blockwise import _ranges
from seqmodels.ops.attention_logits import Places, Rule


def gradient_program(method, length):
    """The compiled gradient at 2 heads of 16."""
    shape = jax.ShapeDtypeStruct((1, length, 2, 16), jnp.float32)

    def loss(q, k, v):
        return (softmax_attention(q, k, v, method=method, block_size=64) ** 2).sum()

    return jax.jit(jax.grad(loss, argnums=(0, 1, 2))).lower(shape, shape, shape).compile()


def array_sizes(program):
    """The number of elements of every float32 array in a compiled program."""
    return {
        int(np.prod([int(n) for n in d.split(",")]))
        for d in re.findall(r"f32\[([\d,]+)\]", program.as_text())
    }


def test_blockwise_memory_is_linear():
    """Wrong if the [T, S] logits stand anywhere, or if twice the length takes more than twice the memory."""
    # From 16 blocks on tiles grow no more.
    short, long, parallel = (
        gradient_program(*which) for which in (("blockwise", 1024), ("blockwise", 2048), ("parallel", 1024))
    )
    assert 2 * 1024**2 in array_sizes(parallel)
    assert max(array_sizes(short)) == 2 * (4 * 64) ** 2
    temporary = [program.memory_analysis().temp_size_in_bytes for program in (short, long, parallel)]
    assert temporary[1] <= 2.1 * temporary[0], temporary
    assert 3 * temporary[0] <= temporary[2], temporary


def test_one_token_reads_a_cache_where_it_lies():
    """Wrong if a decode step copies, transposes or converts the whole cache, which lies as [B, G, S, K]."""
    batch, slots, groups, ratio, width = 2, 4096, 2, 3, 64

    def step(q, keys, values, position):
        used = (jnp.arange(slots)[None, :] <= position[:, None]).astype(jnp.int32)
        return softmax_attention(
            q,
            keys.swapaxes(1, 2),
            values.swapaxes(1, 2),
            segment_ids=jnp.ones_like(position)[:, None],
            kv_segment_ids=used,
            q_positions=position[:, None],
        )

    cache = jax.ShapeDtypeStruct((batch, groups, slots, width), jnp.float32)
    q = jax.ShapeDtypeStruct((batch, 1, groups * ratio, width), jnp.float32)
    program = jax.jit(step).lower(q, cache, cache, jax.ShapeDtypeStruct((batch,), jnp.int32)).compile()
    assert program.memory_analysis().temp_size_in_bytes < 4 * np.prod(cache.shape) / 4
    made = re.findall(
        r"= f32\[([\d,]+)\]\S* (?!parameter|bitcast|get-tuple-element)(\S+?)\(", program.as_text()
    )
    for dimensions, name in made:
        assert np.prod([int(n) for n in dimensions.split(",")]) < np.prod(cache.shape), name


@pytest.mark.parametrize(
    ("window", "first", "behind"),
    [(None, [0, 0, 0, 0], [1, 2, 3, 4]), (16, [0, 0, 1, 2], [1, 2, 3, 4]), (17, [0, 0, 1, 2], [1, 2, 3, 4])],
)
def test_unseen_blocks_are_skipped(window, first, behind):
    """Wrong if blocks above the diagonal or behind the window cost time."""
    places = Places(jnp.ones((4, 1, 16), jnp.int32), jnp.arange(64, dtype=jnp.int32).reshape(4, 1, 16))
    of_queries, of_keys = _ranges(Rule(window, None), places, places)
    np.testing.assert_array_equal(of_queries, [first, behind])
    assert of_keys[0].tolist() == [0, 1, 2, 3]


def test_blocks_of_other_documents_and_of_padding_are_skipped():
    """Wrong if a packed row costs what one long document costs."""
    ids = jnp.asarray([1] * 32 + [2] * 32 + [0] * 16, jnp.int32).reshape(5, 1, 16)
    positions = jnp.asarray([*range(32), *range(32), *range(16)], jnp.int32).reshape(5, 1, 16)
    places = Places(ids, positions)
    of_queries, of_keys = _ranges(Rule(None, None), places, places)
    np.testing.assert_array_equal(of_queries, [[0, 0, 2, 2, 0], [1, 2, 3, 4, 0]])
    np.testing.assert_array_equal(of_keys, [[0, 1, 2, 3, 0], [2, 2, 4, 4, 0]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "chunked"}, "method is 'chunked'"),
        ({"window": 0}, "window is 0"),
        ({"softcap": 0.0}, r"softcap is 0\.0"),
        ({"block_size": 0}, "block_size is 0"),
        ({"q": jnp.zeros((2, 9, 8))}, "q has shape"),
        ({"q": jnp.zeros((2, 9, 3, 8))}, "q has 3 heads and k has 2"),
        ({"k": jnp.zeros((2, 9, 2, 7))}, "k has shape"),
        ({"v": jnp.zeros((2, 8, 2, 8))}, "v has shape"),
        ({"k": jnp.zeros((2, 8, 2, 8)), "v": jnp.zeros((2, 8, 2, 8))}, "q has 9 tokens and k has 8"),
        ({"segment_ids": jnp.ones((2, 8), jnp.int32)}, "segment_ids has shape"),
        ({"segment_ids": jnp.ones((2, 9))}, "segment_ids is float32"),
        ({"kv_positions": jnp.ones((1, 9), jnp.int32)}, "kv_positions has shape"),
        ({"sinks": jnp.zeros(2)}, "sinks has shape"),
        ({"slopes": jnp.zeros((4, 1))}, "slopes has shape"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(change, message):
    """Wrong if a bad shape or setting runs on, or fails far from where it was given."""
    arrays = {"q": jnp.zeros((2, 9, 4, 8)), "k": jnp.zeros((2, 9, 2, 8)), "v": jnp.zeros((2, 9, 2, 8))}
    with pytest.raises(ValueError, match=message) as error:
        softmax_attention(**{**arrays, **change})
    assert str(error.value).startswith("softmax_attention: ") and str(error.value).endswith(".")


@pytest.mark.parametrize("method", ["parallel", "blockwise"])
def test_a_window_beyond_all_positions_bounds_nothing(method):
    """Wrong if a number that no int32 holds reaches a comparison, or wraps around."""
    x = jnp.asarray(np.random.default_rng(0).normal(size=(1, 6, 1, 4)), jnp.float32)
    unbounded, *bounded = (
        softmax_attention(x, x, x, window=window, method=method, block_size=2)
        for window in (None, 2**31 - 1, 2**31, 2**70)
    )
    for o in bounded:
        np.testing.assert_array_equal(o, unbounded)


@pytest.mark.parametrize(
    ("case", "method"),
    [
        ("T1", "blockwise"),
        ("T37_mha", "parallel"),
        ("T37_gqa", "blockwise"),
        ("T37_mqa", "blockwise"),
        ("T37_gqa_sink", "parallel"),
        ("T64_gqa_window7", "blockwise"),
        ("T64_gqa_window7_sink", "blockwise"),
        ("T130_gqa", "blockwise"),
    ],
)
def test_vectors_of_a_published_implementation(refs, case, method):
    """Wrong if groups, window or sinks mean something else here than in other people's code."""
    data = dict(np.load(os.path.join(refs, "ops", "attn", f"{case}.npz")))
    arrays = {name: jnp.asarray(data["in_" + name]) for name in ("q", "k", "v")}
    if "in_sink" in data:
        arrays["sinks"] = jnp.asarray(data["in_sink"])
    window = json.loads(str(data["meta"]))["window"]

    def objective(arrays):
        o = softmax_attention(**arrays, window=window, method=method, block_size=16)
        return (o * data["cot"]).sum(), o

    (_, o), gradients = jax.jit(jax.value_and_grad(objective, has_aux=True))(arrays)
    np.testing.assert_allclose(o, data["out"], rtol=0, atol=2e-5 * np.abs(data["out"]).max())
    for name, gradient in gradients.items():
        wanted = data["grad_" + name.removesuffix("s")]
        size = np.abs(wanted).max() or np.abs(data["cot"]).max()  # of one key, all gradients cancel to 0
        np.testing.assert_allclose(gradient, wanted, rtol=0, atol=1e-4 * size, err_msg=name)
