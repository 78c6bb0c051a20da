"""Contract: how a mixer is found, built, costed and initialised."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from seqmodels.errors import InputError
from seqmodels.mixers import MIXERS, Mixer
from tests.mixers.subjects import VARIANTS

# Words in the names of parameters that take no decay.
NO_DECAY = ("_log", "A_imag", "Lambda", "D']", "bias", "scale", "convolution", "sinks", "lerp")

every_mixer = pytest.mark.parametrize("name", MIXERS)


@every_mixer
def test_builds_by_name_at_any_multiple_of_32(name):
    """Defaults that only fit some widths, such as a head dim above the width, break comparisons of sizes."""
    assert MIXERS[name].__name__ == name
    for width in (32, 96, 160, 256):
        mixer = nnx.eval_shape(lambda width=width: MIXERS[name](width, rngs=nnx.Rngs(0)))
        assert isinstance(mixer, Mixer)
        x = jax.ShapeDtypeStruct((2, 3, width), jnp.float32)
        y, _ = nnx.eval_shape(lambda mixer, x: mixer(x), mixer, x)
        assert y.shape == (2, 3, width)


@every_mixer
def test_what_is_no_row_of_tokens_is_refused(name):
    """By one sentence that names the argument, instead of a message from inside a reshape."""
    mixer = nnx.eval_shape(lambda: MIXERS[name](32, rngs=nnx.Rngs(0)))

    def call(shape, ids):
        nnx.eval_shape(lambda mixer: mixer(jnp.zeros(shape), segment_ids=ids), mixer)

    with pytest.raises(InputError, match=rf"{name}: x has shape \(2, 0, 32\), expected \[B, T, D\]"):
        call((2, 0, 32), None)
    with pytest.raises(InputError, match=rf"{name}: segment_ids has shape \(2, 5\), expected .* \(2, 4\)"):
        call((2, 4, 32), jnp.ones((2, 5), jnp.int32))
    with pytest.raises(InputError, match=rf"{name}: segment_ids is float32, expected integers"):
        call((2, 4, 32), jnp.ones((2, 4)))
    with pytest.raises(InputError, match=rf"{name}.method is 'quadratic'; it must be one of auto, "):
        MIXERS[name](32, method="quadratic", rngs=nnx.Rngs(0))


@every_mixer
def test_every_own_argument_has_a_default_and_a_type(name):
    """The config loader checks bindings against these types."""
    arguments = inspect.signature(MIXERS[name].__init__).parameters
    assert {"layer", "layers", "method", "rngs"} <= set(arguments)
    for argument in list(arguments.values())[1:]:
        assert argument.annotation is not inspect.Parameter.empty, argument.name
        assert argument.name in ("width", "rngs") or argument.default is not inspect.Parameter.empty


@every_mixer
def test_holds_float32_parameters_alone(name):
    """Any other array would be left out of checkpoints; another dtype would stall small updates."""
    one, other = (nnx.eval_shape(lambda seed=seed: MIXERS[name](32, rngs=nnx.Rngs(seed))) for seed in (0, 1))
    graphdef, params = nnx.split(one, nnx.Param)  # raises where anything else is left
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(params))
    assert graphdef == nnx.split(other, nnx.Param)[0]


@every_mixer
def test_stays_float32_where_jax_makes_float64(name):
    """An array made without a dtype is float64 there, and widens the state that it meets."""
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        mixer = nnx.eval_shape(lambda: MIXERS[name](32, rngs=nnx.Rngs(0)))
        state = jax.eval_shape(lambda: mixer.init_state(2, 16))
        x = jax.ShapeDtypeStruct((2, 4, 32), jnp.float32)
        y, after = nnx.eval_shape(lambda mixer, x, state: mixer(x, state=state), mixer, x, state)
    assert {leaf.dtype for leaf in jax.tree.leaves((nnx.split(mixer)[1], y))} == {np.dtype("float32")}
    assert [leaf.dtype for leaf in jax.tree.leaves(after)] == [leaf.dtype for leaf in jax.tree.leaves(state)]
    assert {leaf.dtype for leaf in jax.tree.leaves(after)} <= {np.dtype("float32"), np.dtype("int32")}


@every_mixer
def test_declared_parameters_take_no_decay(name):
    """Rates, biases, norm scales and short convolutions stay as they are where the gradient is 0."""
    _, params = nnx.split(nnx.eval_shape(lambda: MIXERS[name](32, rngs=nnx.Rngs(0))), nnx.Param)
    decays = jax.tree.map(
        lambda param: param.get_metadata().get("weight_decay", True),
        params,
        is_leaf=lambda leaf: isinstance(leaf, nnx.Variable),
    )
    params, decays = nnx.to_pure_dict(params), nnx.to_pure_dict(decays)
    params = jax.tree.map(lambda leaf: np.ones(leaf.shape, np.float32), params)
    optimizer = optax.adamw(0.1, weight_decay=0.1, mask=decays)

    @jax.jit
    def step(params):
        updates, _ = optimizer.update(jax.tree.map(jnp.zeros_like, params), optimizer.init(params), params)
        return optax.apply_updates(params, updates)

    with jax.numpy_dtype_promotion("standard"):  # optax needs it
        after = step(params)
    for path, leaf in jax.tree_util.tree_leaves_with_path(after):
        spelled = jax.tree_util.keystr(path)
        kept = any(word in spelled for word in NO_DECAY)
        np.testing.assert_allclose(leaf, 1.0 if kept else 0.99, rtol=1e-6, err_msg=spelled)


MAPS = [("LinearAttention", {"feature_map": name, "key_dim": 16}) for name in ("hedgehog", "taylor", "dpfp")]
COSTED = [(name, {}) for name in MIXERS] + list(VARIANTS.values()) + MAPS


@pytest.mark.parametrize(("name", "settings"), COSTED, ids=str)
def test_costs_are_what_is_computed(name, settings):
    """FLOPs against XLA's count of the lowered one-token step: the recurrent form, unrolled."""
    length = 96
    mixer = nnx.eval_shape(lambda: MIXERS[name](256, rngs=nnx.Rngs(0), **settings))
    graphdef, params = nnx.split(mixer, nnx.Param)
    state = jax.eval_shape(lambda: mixer.init_state(1, length))
    step = jax.jit(lambda params, x, state: nnx.merge(graphdef, params)(x, state=state))
    counted = step.lower(params, jax.ShapeDtypeStruct((1, 1, 256), jnp.float32), state).cost_analysis()[
        "flops"
    ]
    costs = mixer.costs(length)
    assert costs.flops_per_token == pytest.approx(counted, rel=0.05)
    floats = [leaf.size for leaf in jax.tree.leaves(state) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    assert costs.state_elements == sum(floats)


@every_mixer
def test_a_state_grows_with_length_only_where_it_is_a_cache(name):
    """A recurrent state that grew would make the comparison of memories meaningless."""
    mixer = nnx.eval_shape(lambda: MIXERS[name](32, rngs=nnx.Rngs(0)))
    grows = mixer.costs(512).state_elements != mixer.costs(64).state_elements
    assert grows == (mixer.costs(512).flops_per_token != mixer.costs(64).flops_per_token)
