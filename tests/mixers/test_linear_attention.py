"""Linear attention's own settings: feature maps, the normaliser, and the worked example."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from seqmodels.errors import InputError
from seqmodels.mixers import LinearAttention
from seqmodels.mixers.feature_maps import FeatureMap, dpfp, elu1, features, taylor
from tests.mixers.subjects import agree, normal, randomised


def test_worked_example():
    """Keys (1,0), (0,1), (1,0), values (2,0), (0,3), (1,1): query (1,0) reads (3,1) / 2 = (1.5, 0.5)."""
    mixer = LinearAttention(2, heads=1, feature_map="relu", rngs=nnx.Rngs(0))
    pick = jnp.eye(2)
    mixer.output.kernel[...] = pick
    tokens = {"key": ((1, 0), (0, 1), (1, 0)), "value": ((2, 0), (0, 3), (1, 1))}
    outputs = {}
    for query in ((1, 0), (0, 1)):
        # Each token is its own one-hot pair of inputs, so that a projection is a table of what it maps to.
        table = {**tokens, "query": (query,) * 3}
        state = mixer.init_state(1, 3)
        for place in range(3):
            for name, rows in table.items():
                getattr(mixer, name).kernel[...] = jnp.asarray([rows[place], (0, 0)], jnp.float32)
            y, state = mixer(jnp.asarray([[[1.0, 0.0]]]), state=state)
            outputs[query, place] = np.asarray(y[0, 0])
    np.testing.assert_array_equal(state.memory.kv[0, 0], [[3, 1], [0, 3]])
    np.testing.assert_array_equal(state.memory.key_sum[0, 0], [2, 1])
    np.testing.assert_array_equal(outputs[(1, 0), 2], [1.5, 0.5])
    np.testing.assert_array_equal(outputs[(0, 1), 2], [0, 3])


def test_feature_maps_by_hand():
    """A swapped half, a missing factor or a shift the wrong way changes what the map stands for."""
    x = jnp.asarray([0.5, -2.0])
    np.testing.assert_allclose(elu1(x), [1.5, np.exp(-2.0)], rtol=1e-6)
    root = 2**0.25
    wanted = [1, 0.5 / root, -2 / root, *(np.array([0.25, -1, -1, 4]) / np.sqrt(4))]
    np.testing.assert_allclose(taylor(x), wanted, rtol=1e-6)
    r = np.array([0.5, 0.0, 0.0, 2.0])
    wanted = [r[i] * r[(i + shift) % 4] for shift in (1, 2, 3, 4) for i in range(4)]
    np.testing.assert_allclose(dpfp(x), wanted, rtol=1e-6)


def test_taylor_features_are_the_exponential_to_second_order():
    q, k = normal(5, seed=1), normal(5, seed=2)
    z = float(q @ k) / np.sqrt(5)
    assert float(taylor(q) @ taylor(k)) == pytest.approx(1 + z + z**2 / 2, rel=1e-5)


def test_hedgehog_starts_as_softmax_of_x_and_minus_x():
    x = normal(1, 2, 3, 4)
    wanted = np.exp(np.concatenate([x, -x], axis=-1))
    agree(FeatureMap("hedgehog", 3, 4)(x), wanted / wanted.sum(-1, keepdims=True))


@pytest.mark.parametrize("name", ["elu1", "relu", "identity", "hedgehog", "taylor", "dpfp"])
def test_feature_counts(name):
    """The state's size and the costs are computed from the count."""
    assert FeatureMap(name, 3, 4)(normal(1, 2, 3, 4)).shape[-1] == features(name, 4)


def test_without_normaliser_an_rms_norm_of_each_head():
    """The output of a head then has mean square 1 before its scale, whatever the sums have grown to."""
    mixer = LinearAttention(32, heads=2, feature_map="identity", normalize=False, rngs=nnx.Rngs(0))
    graphdef, params = nnx.split(mixer, nnx.Param)
    params = randomised(nnx.to_pure_dict(params))
    params["norm"]["scale"] = jnp.ones((2, 16))
    params["output"]["kernel"] = jnp.eye(32)
    y, state = nnx.merge(graphdef, params)(normal(1, 40, 32))
    assert state.memory.key_sum is None
    np.testing.assert_allclose((y.reshape(40, 2, 16) ** 2).mean(-1), 1.0, atol=1e-3)


def test_a_vanishing_denominator_gives_zero_not_nan():
    """relu features of a query and every key can be orthogonal: 0 / 0 reads 0, forward and backward."""
    mixer = LinearAttention(4, heads=1, feature_map="relu", rngs=nnx.Rngs(0))
    mixer.query.kernel[...] = -jnp.eye(4)
    mixer.key.kernel[...] = jnp.eye(4)
    x = jnp.abs(normal(1, 5, 4)) + 0.1
    y, _ = mixer(x)
    np.testing.assert_array_equal(y, 0)
    assert (jax.grad(lambda x: mixer(x)[0].sum())(x) == 0).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"feature_map": "identity"}, 'LinearAttention.feature_map "identity" has no positive normaliser'),
        ({"feature_map": "cosine"}, "LinearAttention.feature_map is 'cosine'; it must be one of elu1, relu"),
        ({"heads": 3}, "LinearAttention.heads is 3, which does not divide the width, 32"),
        ({"chunk_size": 0}, "LinearAttention.chunk_size is 0; it must be at least 1"),
        (
            {"method": "blockwise"},
            "LinearAttention.method is 'blockwise'; it must be one of auto, sequential",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(InputError, match=re.escape(message)):
        LinearAttention(32, rngs=nnx.Rngs(0), **settings)
