"""The model around the mixers: layouts, dropout, positions, states, refusals."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from seqmodels.errors import InputError
from seqmodels.language_model import LanguageModel, abstract, build
from seqmodels.loss import token_nll
from seqmodels.mixers import HGRN2, LightningAttention, LinearAttention, Mamba, Mixer, SoftmaxAttention
from seqmodels.mixers.base import Costs
from tests.mixers.subjects import agree, randomised, trees_agree

VOCABULARY, WIDTH, LENGTH = 256, 32, 24
HYBRID = (
    functools.partial(SoftmaxAttention, heads=2),
    functools.partial(Mamba, chunk_size=16),
    functools.partial(LinearAttention, heads=2, chunk_size=16),
)
TOKENS = jnp.asarray(np.random.default_rng(0).integers(0, VOCABULARY, (3, LENGTH)), jnp.int32)
IDS = jnp.asarray([[0] * 2 + [1] * 22, [4] * 5 + [2] * 1 + [3] * 18, [7] * 9 + [0] * 15], jnp.int32)


def made(depth=6, mixers=HYBRID, **settings):
    return functools.partial(LanguageModel, width=WIDTH, depth=depth, mixers=mixers, **settings)


@functools.cache
def hybrid():
    graphdef, params, _ = build(made(3), VOCABULARY)
    params = randomised(params)
    model = nnx.merge(graphdef, params)
    run = jax.jit(
        lambda tokens, ids, state: nnx.merge(graphdef, params)(tokens, segment_ids=ids, state=state)
    )
    return model, lambda tokens, ids=None, state=None: run(tokens, ids, state)


def loss_and_gradients(model_class, key):
    graphdef, params, _ = build(model_class, VOCABULARY)

    def loss(params):
        model = nnx.merge(graphdef, params)
        x, _ = model.features(TOKENS, segment_ids=IDS, rngs=nnx.Rngs(dropout=key))
        return jnp.where(IDS != 0, token_nll(model, x, TOKENS), 0.0).sum()

    return jax.jit(jax.value_and_grad(loss))(params)


def unrolled(gradients, period):
    """The gradients of a layer scan, laid out as those of the unrolled model."""
    blocks = gradients["layers"]["blocks"]
    depth = period * jax.tree.leaves(blocks)[0].shape[0]
    by_layer = {i: jax.tree.map(lambda g, i=i: g[i // period], blocks[i % period]) for i in range(depth)}
    return {**gradients, "layers": {"blocks": by_layer}}


def test_remat_and_layer_scan_equal_the_plain_model():
    """The same draws, the same dropout masks in every layer, the same outputs and gradients."""
    pattern = (
        functools.partial(SoftmaxAttention, heads=2, window=9),
        functools.partial(LinearAttention, heads=2),
    )
    model = functools.partial(made, 4, pattern, dropout=0.3)
    wanted, wanted_gradients = loss_and_gradients(model(), key=5)
    remat, remat_gradients = loss_and_gradients(model(remat=True), key=5)
    scanned, scanned_gradients = loss_and_gradients(model(remat=True, layer_scan=True), key=5)
    np.testing.assert_allclose([remat, scanned], wanted, rtol=1e-6)
    trees_agree(remat_gradients, wanted_gradients)
    trees_agree(unrolled(scanned_gradients, len(pattern)), wanted_gradients)


def test_layer_scan_has_the_states_of_the_plain_model():
    """One layout of states for both: generation does not ask how the layers are kept."""
    states = []
    for layer_scan in (False, True):
        graphdef, params, _ = build(made(layer_scan=layer_scan), VOCABULARY)
        run = jax.jit(lambda tokens, state, g=graphdef, p=params: nnx.merge(g, p)(tokens, state=state))
        _, after = run(TOKENS, None)
        logits, last = run(TOKENS[:, :1], nnx.merge(graphdef, params).init_state(3, 4))
        states.append((after, logits, last))
    trees_agree(states[1], states[0])


@pytest.mark.slow
def test_decays_that_depend_on_depth_are_those_of_the_layer_in_a_scan():
    """The scan hands a mixer its layer as a traced number: decays made of another layer's would train."""
    pattern = (functools.partial(LightningAttention, heads=2), functools.partial(HGRN2, heads=2))
    wanted, wanted_gradients = loss_and_gradients(made(4, pattern), key=5)
    scanned, scanned_gradients = loss_and_gradients(made(4, pattern, layer_scan=True), key=5)
    np.testing.assert_allclose(scanned, wanted, rtol=1e-6)
    trees_agree(unrolled(scanned_gradients, len(pattern)), wanted_gradients)


class Depth(Mixer):
    """Adds its layer's number: what a decay that depends on depth reads."""

    def __init__(self, width, *, layer=0, layers=1, method="auto", rngs):
        self.layer = layer
        self.weight = nnx.Param(jnp.ones(width))

    def __call__(self, x, *, segment_ids=None, state=None, rngs=None):
        return jnp.broadcast_to(self.weight[...], x.shape) * jnp.asarray(self.layer, x.dtype), ()

    def init_state(self, batch_size, max_length, dtype=jnp.float32):
        return ()

    def costs(self, length):
        return Costs(0, 0)


@pytest.mark.filterwarnings("ignore")
def test_a_mixer_knows_its_layer_in_a_scan():
    """A scan over layers runs one program for all: the layer's number must travel with the parameters."""
    with jax.numpy_rank_promotion("allow"):
        outputs = []
        for layer_scan in (False, True):
            graphdef, params, _ = build(
                made(4, (Depth, Depth), layer_scan=layer_scan, feed_forward="none"), VOCABULARY
            )
            outputs.append(nnx.merge(graphdef, params).features(TOKENS)[0])
        agree(outputs[1], outputs[0])


def test_dropout_differs_between_layers_rows_and_keys():
    """One mask for all layers, or none at all, would not show in the loss."""
    identity = made(2, (Depth,), dropout=0.5, feed_forward="none")
    graphdef, params, _ = build(identity, VOCABULARY)
    with jax.numpy_rank_promotion("allow"):
        model = nnx.merge(graphdef, params)
        same = model.features(TOKENS, rngs=nnx.Rngs(dropout=1))[0]
        np.testing.assert_array_equal(model.features(TOKENS, rngs=nnx.Rngs(dropout=1))[0], same)
        assert (model.features(TOKENS, rngs=nnx.Rngs(dropout=2))[0] != same).any()
        still = model.features(TOKENS)[0]
        np.testing.assert_array_equal(model.features(TOKENS, rngs=None)[0], still)
    masks = []
    for layer in range(3):
        key = jax.random.split(jax.random.fold_in(nnx.Rngs(dropout=1).dropout(), layer), 3)[1]
        masks.append(np.asarray(jax.random.bernoulli(key, 0.5, (3, LENGTH, WIDTH))))
    assert (masks[0] != masks[1]).any()
    assert (masks[0][0] != masks[0][1]).any()


def test_abstract_is_build_without_arrays():
    """Restoring a checkpoint needs the tree before any parameter exists."""
    for settings in ({}, {"layer_scan": True, "tie_embeddings": False, "norm": "layer"}):
        graphdef, params, decays = build(made(**settings), VOCABULARY)
        same, shapes, same_decays = abstract(made(**settings), VOCABULARY)
        assert same == graphdef
        assert same_decays == decays
        assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), params) == jax.tree.map(
            lambda leaf: (leaf.shape, leaf.dtype), shapes
        )


def test_seeds():
    """The same seed gives the same parameters, another one other parameters."""
    one, same, other = (jax.tree.leaves(build(made(1), VOCABULARY, seed)[1])[0] for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def test_no_decay_is_declared_through_the_stack():
    """Norm scales and rates take no decay whether their layers are stacked or not; matrices do."""
    for layer_scan in (False, True):
        _, _, decays = build(made(3, layer_scan=layer_scan), VOCABULARY)
        blocks = decays["layers"]["blocks"]
        assert decays["embedding"]["table"] is True
        assert decays["final_norm"]["scale"] is False
        assert blocks[0]["feed_forward"]["down"]["kernel"] is True
        assert blocks[1]["mixer"]["A_log"] is False
        assert blocks[1]["mixer"]["convolution"]["kernel"] is False


def test_a_mixer_that_is_a_whole_block_has_no_feed_forward():
    blocks = build(made(3), VOCABULARY)[1]["layers"]["blocks"]
    assert "feed_forward" in blocks[0]
    assert "feed_forward" not in blocks[1]
    assert "feed_forward" not in build(made(1, feed_forward="none"), VOCABULARY)[1]["layers"]["blocks"][0]


def test_head():
    """Tied and untied matrices, and the cap, which is on the float32 logits."""
    for tied in (True, False):
        _, params, _ = build(made(1, tie_embeddings=tied), VOCABULARY)
        assert ("unembedding" in params) != tied
    graphdef, params, _ = build(made(1, logits_softcap=2.0, dtype="bfloat16"), VOCABULARY)
    model = nnx.merge(graphdef, randomised(params))
    x, _ = model.features(TOKENS)
    assert x.dtype == jnp.bfloat16
    logits = model.head(x)
    assert logits.dtype == jnp.float32
    plain = x.astype(jnp.float32) @ model.embedding.table[...].astype(jnp.bfloat16).astype(jnp.float32).T
    np.testing.assert_allclose(logits, 2 * np.tanh(plain / 2), atol=1e-4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dtype": "float16"}, "LanguageModel.dtype is 'float16'; it must be one of float32, bfloat16"),
        (
            {"feed_forward": "glu"},
            "LanguageModel.feed_forward is 'glu'; it must be one of swiglu, gelu, relu, none",
        ),
        ({"norm": "batch"}, "LanguageModel.norm is 'batch'; it must be one of rms, layer"),
        (
            {"positions": "rotary"},
            "LanguageModel.positions is 'rotary'; it must be one of none, sinusoidal, learned",
        ),
        ({"positions": "learned"}, 'LanguageModel.positions "learned" needs max_positions'),
        ({"mixers": ()}, "LanguageModel.mixers is empty"),
        ({"depth": 0}, "LanguageModel.depth is 0; it must be at least 1"),
        ({"dropout": 1.0}, "LanguageModel.dropout is 1.0; it must be at least 0 and below 1"),
        ({"depth": 4, "layer_scan": True}, "LanguageModel.depth is 4; with layer_scan it must be a multiple"),
        ({"feed_forward_width": 0}, "LanguageModel.feed_forward_width is 0; it must be at least 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    settings = {"width": WIDTH, "depth": 3, "mixers": HYBRID, **settings}
    with pytest.raises(InputError, match=re.escape(message)):
        abstract(functools.partial(LanguageModel, **settings), VOCABULARY)


def test_tokens_outside_the_vocabulary_are_refused():
    model, run = hybrid()
    with pytest.raises(InputError, match=re.escape("holds ids from 0 to 256; the model knows 0 to 255")):
        model(jnp.asarray([[0, 256]]))
    with pytest.raises(InputError, match="segment_ids has shape"):
        model(TOKENS, segment_ids=IDS[:, 1:])
    assert jnp.isnan(run(TOKENS.at[0, 3].set(-1))[0][0, 3:]).any()


def test_scopes_name_the_modules_in_a_profile():
    """A profile without them shows fusions that no one can place."""
    graphdef, params, _ = build(made(3), VOCABULARY)
    text = jax.jit(lambda p: nnx.merge(graphdef, p)(TOKENS)[0]).lower(params).as_text(debug_info=True)
    for scope in ("embedding", "head", "SoftmaxAttention", "Mamba", "LinearAttention", "feed_forward"):
        assert scope in text
