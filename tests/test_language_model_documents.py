"""Documents, padding, positions and states through a whole model of three kinds of mixers."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from seqmodels.errors import InputError
from seqmodels.language_model import build
from seqmodels.loss import token_nll
from seqmodels.mixers import LinearAttention
from tests.mixers.subjects import agree, randomised, trees_agree
from tests.test_language_model import IDS, LENGTH, TOKENS, VOCABULARY, hybrid, made


def test_documents_of_a_packed_row_are_alone():
    """Embedding, layers and positions together: a document's logits as in a row of its own."""
    _, run = hybrid()
    packed, state = run(TOKENS, IDS)
    whole, _ = run(TOKENS)
    agree(packed[2, :9], whole[2, :9])
    agree(packed[1, :5], whole[1, :5])
    moved = TOKENS.at[1, 4].set((TOKENS[1, 4] + 1) % VOCABULARY)
    np.testing.assert_array_equal(run(moved, IDS)[0][1, 5:], packed[1, 5:])
    alone = jnp.tile(TOKENS[1:2, 6:], (3, 1))
    agree(packed[1, 6:], run(jnp.pad(alone, ((0, 0), (0, 6))))[0][0, :18])
    np.testing.assert_array_equal(state.position, [22, 18, 9])
    np.testing.assert_array_equal(state.last_id, [1, 3, 7])


def test_a_step_can_take_its_state_over():
    """Donated states are written in place; an array that stands in two of their places is refused."""
    model, _ = hybrid()
    graphdef, params = nnx.split(model, nnx.Param)
    step = jax.jit(lambda t, state: nnx.merge(graphdef, params)(t, state=state)[1], donate_argnums=1)
    state = model.init_state(3, 12)
    for place in range(2):
        state = step(TOKENS[:, place : place + 1], state)
    np.testing.assert_array_equal(state.position, [2, 2, 2])


def test_packing_changes_neither_loss_nor_gradient():
    """Four documents of 6 tokens as four rows, and as one row of 24."""
    model, _ = hybrid()
    graphdef, params = nnx.split(model, nnx.Param)
    tokens = TOKENS[:1].reshape(4, 6)

    def loss(params, tokens, ids):
        model = nnx.merge(graphdef, params)
        x, _ = model.features(tokens, segment_ids=ids)
        return token_nll(model, x, jnp.roll(tokens.reshape(4, 6), 1, axis=0).reshape(tokens.shape)).sum()

    run = jax.jit(jax.value_and_grad(loss))
    apart, of_apart = run(params, tokens, jnp.ones((4, 6), jnp.int32))
    packed, of_packed = run(params, tokens.reshape(1, 24), jnp.repeat(jnp.arange(1, 5), 6)[None])
    np.testing.assert_allclose(packed, apart, rtol=1e-5)
    trees_agree(of_packed, of_apart)


def test_prompts_of_different_lengths_decode_as_alone():
    """Left, right and no padding in one batch, then single tokens: position, logits, shape of a step."""
    model, run = hybrid()
    ids = jnp.asarray([[0] * 4 + [1] * 3, [1] * 7, [1] * 3 + [0] * 4], jnp.int32)
    prompt = TOKENS[:, :7]
    _, state = run(prompt, ids, model.init_state(3, 12))
    np.testing.assert_array_equal(state.position, [3, 7, 3])
    following = TOKENS[:, 7:12]
    steps = []
    for place in range(5):
        logits, state = run(following[:, place : place + 1], None, state)
        assert logits.shape == (3, 1, VOCABULARY)
        steps.append(logits)
    np.testing.assert_array_equal(state.position, [8, 12, 8])
    full = [jnp.concatenate([prompt[row][ids[row] == 1], following[row]]) for row in range(3)]
    padded = jnp.stack([jnp.pad(row, (0, LENGTH - len(row))) for row in full])
    whole, _ = run(padded)
    for row, count in enumerate((3, 7, 3)):
        agree(jnp.concatenate(steps, axis=1)[row], whole[row, count : count + 5])


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_absolute_positions_follow_the_document(positions):
    """They restart in each document, pass over padding, and go on from the state."""
    settings = {"positions": positions, "max_positions": LENGTH}
    graphdef, params, _ = build(made(1, (LinearAttention,), **settings), VOCABULARY)
    params = randomised(params)
    model = nnx.merge(graphdef, params)
    run = jax.jit(
        lambda tokens, ids, state: nnx.merge(graphdef, params)(tokens, segment_ids=ids, state=state)
    )
    whole, _ = run(TOKENS, None, None)
    first, state = run(TOKENS[:, :5], None, model.init_state(3, LENGTH))
    rest, _ = run(TOKENS[:, 5:], None, state)
    agree(jnp.concatenate([first, rest], axis=1), whole)
    packed, _ = run(TOKENS, IDS, None)
    agree(packed[1, 6:], run(jnp.pad(TOKENS[:, 6:], ((0, 0), (0, 6))), None, None)[0][1, :18])
    agree(packed[0, 2:], run(jnp.pad(TOKENS[:, 2:], ((0, 0), (0, 2))), None, None)[0][0, :22])
    assert jnp.isfinite(packed).all()
    assert np.abs(whole[0, 1] - run(jnp.tile(TOKENS[:, 1:2], (1, LENGTH)), None, None)[0][0, 0]).max() > 1e-3


def test_learned_positions_end_at_their_table():
    """Past it a sentence where numbers are known, NaN in compiled code, never a clamped entry."""
    settings = {"positions": "learned", "max_positions": 8}
    graphdef, params, _ = build(made(1, (LinearAttention,), **settings), VOCABULARY)
    model = nnx.merge(graphdef, params)
    with pytest.raises(InputError, match=re.escape("has 9 tokens and LanguageModel.max_positions is 8")):
        model(TOKENS[:, :9])
    run = jax.jit(lambda tokens: nnx.merge(graphdef, params)(tokens)[0])
    logits = run(TOKENS[:, :9])
    assert jnp.isnan(logits[:, 8]).all()
    model(TOKENS[:, :9], segment_ids=jnp.asarray([[1] * 5 + [2] * 4] * 3, jnp.int32))
