"""Softmax attention's own settings, against plain loops over pairs, and its cache at its limits."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from seqmodels.errors import InputError
from seqmodels.mixers import SoftmaxAttention
from seqmodels.mixers.softmax_attention import alibi_slopes
from tests.mixers.subjects import agree, normal, randomised

WIDTH, LENGTH = 32, 11


def make(**settings):
    mixer = SoftmaxAttention(WIDTH, rngs=nnx.Rngs(0), **settings)
    graphdef, params = nnx.split(mixer, nnx.Param)
    params = randomised(nnx.to_pure_dict(params))
    run = jax.jit(lambda x, state=None: nnx.merge(graphdef, params)(x, state=state))
    return nnx.merge(graphdef, params), run, jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)


def loops(p, x, *, heads, kv_heads=None, window=LENGTH, slopes=None, softcap=None, turn=False, qk_norm=False):
    """The equation, a query, a head and a key at a time."""
    kv_heads = kv_heads or heads
    q, k, v = (x @ p[name]["kernel"] for name in ("query", "key", "value"))
    q, k, v = q.reshape(LENGTH, heads, -1), k.reshape(LENGTH, kv_heads, -1), v.reshape(LENGTH, kv_heads, -1)
    size = q.shape[-1]
    if qk_norm:
        q = q / np.sqrt((q**2).mean(-1, keepdims=True) + 1e-5) * p["query_norm"]["scale"]
        k = k / np.sqrt((k**2).mean(-1, keepdims=True) + 1e-5) * p["key_norm"]["scale"]
    if turn:
        for place in range(LENGTH):
            for i in range(size // 2):
                angle = place * 10_000.0 ** (-2 * i / size)
                turned = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
                for y in (q, k):
                    y[place, :, [i, i + size // 2]] = turned @ y[place, :, [i, i + size // 2]]
    o = np.zeros((LENGTH, heads, size))
    for t in range(LENGTH):
        for h in range(heads):
            seen = range(max(0, t - window + 1), t + 1)
            group = h // (heads // kv_heads)
            logits = np.array([q[t, h] @ k[s, group] / np.sqrt(size) for s in seen])
            if softcap:
                logits = softcap * np.tanh(logits / softcap)
            if slopes is not None:
                logits = logits - slopes[h] * np.array([t - s for s in seen])
            weights = np.exp(logits)
            total = weights.sum() + (np.exp(p["sinks"][h]) if "sinks" in p else 0.0)
            o[t, h] = sum(w / total * v[s, group] for w, s in zip(weights, seen, strict=True))
    return o.reshape(LENGTH, -1) @ p["output"]["kernel"]


@pytest.mark.parametrize(
    ("settings", "equation"),
    [
        ({"heads": 4}, {"heads": 4, "turn": True}),
        ({"heads": 4, "kv_heads": 2}, {"heads": 4, "kv_heads": 2, "turn": True}),
        ({"heads": 4, "kv_heads": 1, "window": 3}, {"heads": 4, "kv_heads": 1, "window": 3, "turn": True}),
        ({"heads": 2, "position_encoding": "none", "sinks": True}, {"heads": 2}),
        (
            {"heads": 2, "position_encoding": "alibi", "softcap": 2.0},
            {"heads": 2, "slopes": (2.0**-4, 2.0**-8), "softcap": 2.0},
        ),
        ({"heads": 2, "qk_norm": True}, {"heads": 2, "turn": True, "qk_norm": True}),
    ],
    ids=["multi-head", "grouped", "multi-query-windowed", "sinks", "alibi-softcap", "qk-norm"],
)
def test_settings_do_what_they_say(settings, equation):
    """A head that reads another group, a window off by one, a wrong order of cap, bias and mask."""
    _, run, params = make(**settings)
    x = normal(1, LENGTH, WIDTH)
    agree(run(x)[0][0], loops(params, np.asarray(x[0], np.float64), **equation))


def test_alibi_slopes():
    """Powers of two halve from head to head; other counts interleave those of the next power."""
    np.testing.assert_allclose(alibi_slopes(8), 2.0 ** -np.arange(1, 9))
    np.testing.assert_allclose(alibi_slopes(1), [2.0**-8])
    np.testing.assert_allclose(alibi_slopes(6), [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-1, 2.0**-3])


def test_cache_and_appending_equal_the_whole_without_ids():
    """Several tokens without ids after a prompt: they see the cache and one another."""
    for settings in ({"heads": 4, "kv_heads": 2}, {"heads": 2, "window": 4, "conv_width": 3}):
        mixer, run, _ = make(**settings)
        x = normal(3, LENGTH, WIDTH)
        whole, _ = run(x)
        first, state = run(x[:, :4], mixer.init_state(3, LENGTH))
        second, state = run(x[:, 4:], state)
        agree(jnp.concatenate([first, second], axis=1), whole)
        np.testing.assert_array_equal(state.position, [LENGTH] * 3)


def test_a_full_cache_is_refused_with_its_numbers():
    """Past its capacity a cache has no room; the message says whose and how much."""
    mixer, run, _ = make(heads=2)
    _, state = run(normal(2, 5, WIDTH), mixer.init_state(2, 6))
    with pytest.raises(InputError, match=re.escape("room for 6 tokens and row 0 would hold 7")):
        mixer(normal(2, 2, WIDTH), state=state)
    ids = jnp.asarray([[1, 0], [1, 1]], jnp.int32)
    with pytest.raises(InputError, match="row 1 would hold 7"):
        mixer(normal(2, 2, WIDTH), segment_ids=ids, state=state)
    _, returned = run(normal(2, 5, WIDTH))  # without a state, the one returned is full
    with pytest.raises(InputError, match="room for 5"):
        mixer(normal(2, 1, WIDTH), state=returned)


def test_compiled_code_past_the_cache_gives_nan_in_that_row_alone():
    """Never plausible numbers: the row that overflows is NaN from then on, the other goes on."""
    mixer, _, _ = make(heads=2)
    graphdef, params = nnx.split(mixer, nnx.Param)
    run = jax.jit(lambda x, ids, state: nnx.merge(graphdef, params)(x, segment_ids=ids, state=state))
    x = normal(2, 5, WIDTH)
    state = run(x, jnp.asarray([[1] * 5, [1, 1, 0, 0, 0]], jnp.int32), mixer.init_state(2, 6))[1]
    pair = jnp.ones((2, 2), jnp.int32)
    y, after = run(x[:, :2], pair, state)
    assert jnp.isnan(y[0]).all()
    assert jnp.isfinite(y[1]).all()
    single = jnp.ones((2, 1), jnp.int32)
    y, after = run(x[:, :1], single, after)
    assert jnp.isnan(y[0]).all()
    assert jnp.isfinite(y[1]).all()
    np.testing.assert_array_equal(after.position, [8, 5])
    y, _ = run(x[:, :1], 2 * single, after)  # another document starts at slot 0 again
    assert jnp.isfinite(y).all()


def test_a_ring_buffer_is_never_full():
    """It holds the window and no more, however long the document."""
    mixer, run, _ = make(heads=2, window=3)
    state = mixer.init_state(1, 5)
    assert state.keys.shape[2] == 3
    x = normal(1, LENGTH, WIDTH)
    whole, _ = run(x)
    for place in range(LENGTH):
        y, state = run(x[:, place : place + 1], state)
        agree(y[:, 0], whole[:, place])


@pytest.mark.parametrize("batch", [1, 2])
def test_a_decode_step_copies_no_cache(batch):
    """One slot is written in place and the cache is read where it lies: no array of its size is made."""
    for settings in ({"heads": 4}, {"heads": 4, "kv_heads": 2}, {"heads": 4, "window": 512}):
        mixer = SoftmaxAttention(64, rngs=nnx.Rngs(0), **settings)
        graphdef, params = nnx.split(mixer, nnx.Param)
        state = mixer.init_state(batch, 512)
        step = jax.jit(
            lambda x, state, g=graphdef, p=params: nnx.merge(g, p)(x, state=state), donate_argnums=1
        )
        compiled = step.lower(jnp.zeros((batch, 1, 64)), state).compile()
        memory = compiled.memory_analysis()
        cache = state.keys.nbytes
        assert memory.alias_size_in_bytes >= 2 * cache
        assert memory.temp_size_in_bytes < cache / 2


def test_training_writes_no_cache():
    """The state that training does not read is not computed: no scatter is left in its program."""
    mixer = SoftmaxAttention(64, heads=2, method="parallel", rngs=nnx.Rngs(0))
    graphdef, params = nnx.split(mixer, nnx.Param)

    def loss(params, x, ids):
        return (nnx.merge(graphdef, params)(x, segment_ids=ids)[0] ** 2).sum()

    step = jax.jit(jax.grad(loss))
    program = step.lower(params, jnp.zeros((2, 16, 64)), jnp.ones((2, 16), jnp.int32)).compile().as_text()
    assert "scatter" not in program


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 5}, "SoftmaxAttention.heads is 5, which does not divide the width, 32"),
        ({"heads": 0}, "SoftmaxAttention.heads is 0; it must be at least 1"),
        (
            {"heads": 4, "kv_heads": 3},
            "SoftmaxAttention.kv_heads is 3; it must divide the number of heads, 4",
        ),
        ({"window": 0}, "SoftmaxAttention.window is 0; it must be at least 1"),
        ({"softcap": -1.0}, "SoftmaxAttention.softcap is -1.0; it must be above 0"),
        ({"heads": 32}, "SoftmaxAttention.head_dim is 1; rotary positions turn pairs"),
        (
            {"position_encoding": "sine"},
            "SoftmaxAttention.position_encoding is 'sine'; it must be one of rope, none",
        ),
        ({"rope_scaling": "ntk"}, "SoftmaxAttention.rope_scaling is 'ntk'; it must be one of none, linear"),
        ({"rope_scaling": "yarn"}, "SoftmaxAttention.rope_scaling 'yarn' needs rope_original_length"),
        ({"rope_factor": 0.0}, "SoftmaxAttention.rope_factor is 0.0"),
        (
            {"method": "chunked"},
            "SoftmaxAttention.method is 'chunked'; it must be one of auto, parallel, blockwise",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(InputError, match=re.escape(message)):
        SoftmaxAttention(WIDTH, rngs=nnx.Rngs(0), **settings)
