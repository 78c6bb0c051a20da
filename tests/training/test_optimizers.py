"""AdamW and Muon: decoupled decay on the right parameters, clipping, the equations."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from seqmodels.errors import InputError
from seqmodels.language_model import LanguageModel, build
from seqmodels.mixers import MIXERS
from seqmodels.training.optimizers import AdamW, Muon
from tests.training.tiny import in_micro_batches, random_batch, tiny


def should_decay(names: list[str]) -> bool:
    """Linear maps and tables decay; convolutions, decays, gates' biases and norms do not."""
    return names[-1] in {"kernel", "dt_kernel", "table"} and "convolution" not in names


def one_update(optimizer, params, decays, gradients, steps=1):
    """The parameters after one update, compiled: one by one the many small operations take seconds."""
    update = optimizer.build(decays, steps)

    @jax.jit
    def updated(params, gradients):
        changes, _ = update(gradients, update.init(params), params)
        return optax.apply_updates(params, changes)

    return updated(params, gradients)


def names_and_leaves(tree):
    for path, leaf in jax.tree.leaves_with_path(tree):
        yield [str(key.key) for key in path], np.asarray(leaf)


@pytest.mark.parametrize(
    ("optimizer", "scan"),
    [(AdamW, False), (AdamW, True), (Muon, True)],
    ids=["AdamW", "AdamW-scanned", "Muon-scanned"],
)
def test_decay_acts_on_matrices_alone_and_is_decoupled(optimizer, scan):
    """Gradients 0, all parameters 1, rate and decay 0.1: 0.99 where decay acts and exactly 1 elsewhere.

    0.90 would be decay that went through Adam; a rule by the number of axes would decay A_log, convolutions
    and the stacked vectors of scanned layers.
    """
    mixers = tuple(MIXERS[name] for name in ("SoftmaxAttention", "LinearAttention", "Mamba"))
    model = partial(
        LanguageModel,
        width=32,
        depth=len(mixers),
        mixers=mixers,
        norm="layer",
        tie_embeddings=False,
        layer_scan=scan,
    )
    _, params, decays = build(model, 61)
    ones, zeros = jax.tree.map(jnp.ones_like, params), jax.tree.map(jnp.zeros_like, params)
    settings = optimizer(learning_rate=0.1, schedule="constant", weight_decay=0.1)
    seen = set()
    for names, leaf in names_and_leaves(one_update(settings, ones, decays, zeros)):
        seen.add(names[-1])
        if should_decay(names):
            np.testing.assert_allclose(leaf, 0.99, rtol=1e-6, err_msg=".".join(names))
        else:
            assert (leaf == 1.0).all(), f"{'.'.join(names)} decays"
    assert seen >= {"kernel", "table", "A_log", "D", "dt_bias", "scale", "bias"}, (
        "the test must meet both sorts"
    )


def test_decay_is_not_clipped():
    """With gradients clipped to nothing the decay must still act in full."""
    params, decays = {"kernel": jnp.ones((4, 4))}, {"kernel": True}
    settings = AdamW(learning_rate=0.1, schedule="constant", weight_decay=0.1, clip_norm=1e-9, epsilon=1.0)
    after = one_update(settings, params, decays, {"kernel": jnp.full((4, 4), 100.0)})
    np.testing.assert_allclose(after["kernel"], 0.99, rtol=1e-6)


def test_adamw_is_its_equations():
    """Five updates against a float64 loop: means, squares, bias corrections, clipping, decay."""
    random = np.random.default_rng(0)
    beta1, beta2, epsilon, rate, decay, clip = 0.8, 0.9, 1e-3, 0.01, 0.3, 0.5
    start = {"a": random.normal(size=(3, 2)), "b": random.normal(size=4)}
    decays = {"a": True, "b": False}
    settings = AdamW(
        rate, "constant", beta1=beta1, beta2=beta2, epsilon=epsilon, weight_decay=decay, clip_norm=clip
    )
    update = settings.build(decays, 5)
    params = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), start)
    state = update.init(params)
    want = {name: value.copy() for name, value in start.items()}
    mean = {name: np.zeros_like(value) for name, value in start.items()}
    square = {name: np.zeros_like(value) for name, value in start.items()}
    for count in range(1, 6):
        gradients = {name: random.normal(size=value.shape) for name, value in start.items()}
        changes, state = update(jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), gradients), state, params)
        params = optax.apply_updates(params, changes)
        norm = np.sqrt(sum((gradient**2).sum() for gradient in gradients.values()))
        for name, gradient in gradients.items():
            gradient = gradient * min(1, clip / norm)
            mean[name] = beta1 * mean[name] + (1 - beta1) * gradient
            square[name] = beta2 * square[name] + (1 - beta2) * gradient**2
            direction = (
                mean[name] / (1 - beta1**count) / (np.sqrt(square[name] / (1 - beta2**count)) + epsilon)
            )
            want[name] = want[name] - rate * (direction + (decay * want[name] if decays[name] else 0))
    for name, value in want.items():
        np.testing.assert_allclose(params[name], value, rtol=1e-5)


def test_muon_orthogonalises_linear_maps_and_leaves_the_rest_to_adam():
    mixers = (MIXERS["Mamba"],)
    _, params, decays = build(
        partial(LanguageModel, width=32, depth=1, mixers=mixers, tie_embeddings=False), 61
    )
    random = np.random.default_rng(0)
    gradients = jax.tree.map(lambda x: jnp.asarray(random.normal(size=x.shape), jnp.float32), params)
    settings = Muon(learning_rate=1.0, schedule="constant", weight_decay=0.0, clip_norm=None)
    zeros = jax.tree.map(jnp.zeros_like, params)
    gradient = dict_of(gradients)
    for name, step in dict_of(one_update(settings, zeros, decays, gradients)).items():
        if name.startswith("layers") and name.endswith(".kernel") and "convolution" not in name:
            values = np.linalg.svd(step, compute_uv=False)
            assert values.max() / values.min() < 2.5, f"the step of {name} is not orthogonal"
            assert 0.1 < np.sqrt((step**2).mean()) < 0.3, f"the step of {name} is not of Adam's size"
        else:
            # Adam's first step has the gradient's sign and size 1; Nesterov's momentum looks a step ahead.
            size = 1 + 0.9 * (1 - 0.9) / (1 - 0.9**2)
            np.testing.assert_allclose(step, -np.sign(gradient[name]) * size, rtol=1e-3, err_msg=name)


def dict_of(tree):
    return {".".join(names): leaf for names, leaf in names_and_leaves(tree)}


@pytest.mark.parametrize("optimizer", [AdamW(), Muon()], ids=["AdamW", "Muon"])
def test_an_update_keeps_every_type_and_keeps_sums_in_float32(optimizer):
    """A type that changes, or a Python number among the arrays, compiles the step a second time."""
    made = tiny(optimizer, dtype="bfloat16")
    batch = in_micro_batches(random_batch(2, 16), 2)
    after, _ = jax.eval_shape(made.step, made.state, batch)
    assert jax.tree.structure(after) == jax.tree.structure(made.state)
    for before, leaf in zip(jax.tree.leaves(made.state), jax.tree.leaves(after), strict=True):
        assert (before.shape, before.dtype, before.weak_type) == (leaf.shape, leaf.dtype, leaf.weak_type)
        assert leaf.dtype in (jnp.float32, jnp.int32)


def test_parameters_move_at_small_rates_in_bfloat16_compute():
    """A bfloat16 copy of a decay of 2.77 steps in units of 0.016, and would not move at all."""
    made = tiny(AdamW(learning_rate=1e-5), dtype="bfloat16", mixers=(MIXERS["Mamba"],))
    state, _ = made.step(made.state, in_micro_batches(random_batch(2, 16), 1))
    before, after = dict_of(made.state.params), dict_of(state.params)
    decay_rates = [name for name in before if name.endswith("A_log")]
    assert decay_rates and all((before[name] != after[name]).any() for name in decay_rates)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"learning_rate": -1.0}, "AdamW.learning_rate = -1.0 should not be negative"),
        ({"warmup_steps": -1}, "AdamW.warmup_steps"),
        ({"final_fraction": 2.0}, "AdamW.final_fraction = 2.0 should be at most 1"),
        ({"clip_norm": 0.0}, "AdamW.clip_norm = 0"),
    ],
)
def test_senseless_settings_are_refused(settings, words):
    with pytest.raises(InputError, match=words):
        AdamW(**settings)
