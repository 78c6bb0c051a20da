"""Compressed attention's own settings, against a plain loop over what each query reads, and its cache."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from seqmodels.errors import InputError
from seqmodels.mixers import CompressedAttention, SoftmaxAttention
from tests.mixers.subjects import agree, normal, randomised

WIDTH, LENGTH = 32, 23


def make(**settings):
    mixer = CompressedAttention(WIDTH, rngs=nnx.Rngs(0), **settings)
    graphdef, params = nnx.split(mixer, nnx.Param)
    params = randomised(nnx.to_pure_dict(params))
    run = jax.jit(
        lambda x, ids=None, state=None: nnx.merge(graphdef, params)(x, segment_ids=ids, state=state)
    )
    wide = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)
    return nnx.merge(graphdef, params), lambda x, ids=None, state=None: run(x, ids, state), wide


def loops(p, x, weights, *, heads, kv_heads, window, pool_size):
    """The equation without positions, a query and a head at a time; weights: [2, G, pool_size]."""
    q, k, v = (x @ p[name]["kernel"] for name in ("query", "key", "value"))
    q, k, v = q.reshape(LENGTH, heads, -1), k.reshape(LENGTH, kv_heads, -1), v.reshape(LENGTH, kv_heads, -1)
    o = np.zeros_like(q)
    for t in range(LENGTH):
        for h in range(heads):
            group = h // (heads // kv_heads)
            keys, values, read = [], [], 0
            for first in range(0, t + 1, pool_size):
                block = np.arange(first, first + pool_size)
                if block[-1] <= t - window:  # its last token has left the window
                    keys.append(weights[0, group] @ k[block, group])
                    values.append(weights[1, group] @ v[block, group])
                    read += pool_size
                else:
                    block = block[block <= t]
                    keys.extend(k[block, group])
                    values.extend(v[block, group])
                    read += len(block)
            assert read == t + 1  # each token once
            logits = np.array(keys) @ q[t, h] / np.sqrt(q.shape[-1])
            share = np.exp(logits - logits.max())
            o[t, h] = share / share.sum() @ np.array(values)
    return o.reshape(LENGTH, -1) @ p["output"]["kernel"]


@pytest.mark.parametrize(("window", "pool_size"), [(1, 1), (1, 4), (3, 2), (4, 4), (6, 5), (30, 4)])
@pytest.mark.parametrize("pooling", ["mean", "strided", "learned"])
def test_every_token_is_read_once(pooling, window, pool_size):
    """A block that is pooled a token too early or too late, or read twice, shows at one of these sizes."""
    sizes = {"heads": 4, "kv_heads": 2, "window": window, "pool_size": pool_size}
    _, run, params = make(pooling=pooling, position_encoding="none", **sizes)
    weights = {
        "mean": np.full((2, 2, pool_size), 1 / pool_size),
        "strided": np.tile(np.arange(pool_size) == pool_size - 1, (2, 2, 1)).astype(float),
    }
    if pooling == "learned":
        shares = np.exp(params["pooling_logits"])
        weights["learned"] = shares / shares.sum(-1, keepdims=True)
    x = normal(1, LENGTH, WIDTH)
    agree(run(x)[0][0], loops(params, np.asarray(x[0], np.float64), weights[pooling], **sizes))


def test_strided_pooling_keeps_the_rotation_of_the_tokens():
    """Blocks of one token lose nothing: it is softmax attention, rotary positions and all."""
    mixer, run, _ = make(heads=2, window=3, pool_size=1, pooling="strided")
    params = nnx.split(mixer, nnx.Param)[1]
    full = nnx.split(SoftmaxAttention(WIDTH, heads=2, rngs=nnx.Rngs(0)), nnx.Param)[0]
    x = normal(2, LENGTH, WIDTH)
    agree(run(x)[0], jax.jit(lambda x: nnx.merge(full, params)(x)[0])(x))


def test_learned_pooling_starts_as_the_mean():
    """Weights that started elsewhere would make the two settings differ before any training."""
    mixer = CompressedAttention(WIDTH, pool_size=4, pooling="learned", rngs=nnx.Rngs(0))
    assert (mixer.pooling_logits[...] == 0).all()


def test_the_state_is_the_window_and_a_block_a_pair():
    """It grows by a key and a value a block; the exact part stays."""
    mixer, _, _ = make(heads=2, window=5, pool_size=4)
    state = mixer.init_state(3, 40)
    assert state.keys.shape == state.values.shape == (3, 2, 8, 16)
    assert state.pooled_keys.shape == state.pooled_values.shape == (3, 2, 10, 16)
    assert mixer.costs(80).state_elements - mixer.costs(40).state_elements == 2 * 2 * 16 * 10


def test_a_full_cache_is_refused_and_compiled_code_gives_nan_in_that_row_alone():
    """Past the last pooled slot a block would be lost: never plausible numbers."""
    mixer, run, _ = make(heads=2, window=3, pool_size=4)
    x = normal(2, 8, WIDTH)
    ids = jnp.asarray([[1] * 8, [1] * 4 + [0] * 4], jnp.int32)
    _, state = run(x, ids, mixer.init_state(2, 8))  # two blocks: room for 11 tokens
    _, state = run(x[:, :3], None, state)
    with pytest.raises(InputError, match=re.escape("room for 11 tokens and row 0 would hold 12")):
        mixer(x[:, :1], state=state)
    for length in (1, 2):
        y, after = run(x[:, :length], None, state)
        assert jnp.isnan(y[0]).all()
        assert jnp.isfinite(y[1]).all()
    y, _ = run(x[:, :1], jnp.full((2, 1), 2, jnp.int32), after)  # another document starts afresh
    assert jnp.isfinite(y).all()


@pytest.mark.parametrize("batch", [1, 2])
def test_a_decode_step_copies_no_cache(batch):
    """Slots are written in place and the caches are read where they lie: no array of their size is made."""
    mixer = CompressedAttention(64, heads=4, window=256, pool_size=4, rngs=nnx.Rngs(0))
    graphdef, params = nnx.split(mixer, nnx.Param)
    state = mixer.init_state(batch, 1024)
    step = jax.jit(lambda x, state: nnx.merge(graphdef, params)(x, state=state), donate_argnums=1)
    memory = step.lower(jnp.zeros((batch, 1, 64)), state).compile().memory_analysis()
    assert memory.alias_size_in_bytes >= 2 * (state.keys.nbytes + state.pooled_keys.nbytes)
    assert memory.temp_size_in_bytes < state.pooled_keys.nbytes / 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"heads": 4, "kv_heads": 3},
            "CompressedAttention.kv_heads is 3; it must divide the number of heads, 4",
        ),
        ({"window": 0}, "CompressedAttention.window is 0; it must be at least 1"),
        ({"pool_size": 0}, "CompressedAttention.pool_size is 0; it must be at least 1"),
        (
            {"pooling": "max"},
            "CompressedAttention.pooling is 'max'; it must be one of mean, strided, learned",
        ),
        ({"heads": 32}, "CompressedAttention.head_dim is 1; rotary positions turn pairs"),
        (
            {"position_encoding": "alibi"},
            "CompressedAttention.position_encoding is 'alibi'; it must be one of rope, none",
        ),
        (
            {"method": "chunked"},
            "CompressedAttention.method is 'chunked'; it must be one of auto, parallel, blockwise",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(InputError, match=re.escape(message)):
        CompressedAttention(WIDTH, rngs=nnx.Rngs(0), **settings)
