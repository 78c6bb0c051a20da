"""Every op over rows in any arrangement: its forms agree, and documents know nothing of each other."""

import jax
import numpy as np
import pytest
from hypothesis import strategies as st

from tests.fuzzed_rows import a_document, cut, last_ids, segment_ids
from tests.fuzzing import fuzz
from tests.ops.fuzzed_ops import OPS, ROWS, Form, forms, gradients, program

LENGTH = 40
FORMS = forms(sizes=(5, 16))
# In every run those whose code the others share; all of them in the slow tests.
QUICK = [
    Form("linear_attention", "chunked", 16),
    Form("delta_rule", "chunked", 16),
    Form("causal_conv", "only", 1),
]
ARRANGED = {
    "ids": segment_ids(ROWS, LENGTH),
    "seed": st.integers(0, 2**32 - 1),
    "strength": st.sampled_from((0.0, 0.1, 3.0, 100.0)),
}
CHOICE, PLACE = st.integers(0, 99), st.integers(0, LENGTH)


def agree(got, wanted) -> None:
    """Finite, and within 1e-4 of the largest magnitude, or of 1 where that is smaller."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert np.isfinite(got).all()
    assert np.abs(got - wanted).max(initial=0.0) <= 1e-4 * max(1.0, np.abs(wanted).max(initial=0.0))


def check_forms(form, ids, seed, strength):
    op = OPS[form.op]
    tokens = op.tokens(np.random.default_rng(seed), LENGTH, strength)
    y, state = program(form)(tokens, op.state, ids)
    wanted, wanted_state = program(form.plainest)(tokens, op.state, ids)
    agree(np.asarray(y)[ids != 0], np.asarray(wanted)[ids != 0])
    jax.tree.map(agree, state, wanted_state)


def check_borders(form, ids, choice, seed, strength):
    """Other tokens in a document and at padding change no bit elsewhere, nor the state of another."""
    op, generator = OPS[form.op], np.random.default_rng(seed)
    tokens, others = (op.tokens(generator, LENGTH, strength) for _ in range(2))
    document = a_document(ids, choice)
    replaced = document | (ids == 0)
    changed = {
        name: np.where(np.expand_dims(replaced, tuple(range(2, array.ndim))), others[name], array)
        for name, array in tokens.items()
    }
    y, state = program(form)(tokens, op.state, ids)
    other_y, other_state = program(form)(changed, op.state, ids)
    np.testing.assert_array_equal(np.asarray(other_y)[~replaced], np.asarray(y)[~replaced])
    rows = [row for row, last in enumerate(last_ids(ids)) if not document[row][ids[row] == last].any()]
    for before, after in zip(jax.tree.leaves(state), jax.tree.leaves(other_state), strict=True):
        np.testing.assert_array_equal(np.asarray(after)[rows], np.asarray(before)[rows])


def check_pieces(form, ids, place, seed, strength):
    op = OPS[form.op]
    tokens = op.tokens(np.random.default_rng(seed), LENGTH, strength)
    whole, wanted = program(form)(tokens, op.state, ids)
    left, right = cut(ids, place)
    first, state = program(form)(tokens, op.state, left)
    # An op knows no ids beyond its row: whoever calls it empties the state for another document.
    begins = last_ids(right[:, ::-1])
    goes_on = (begins == 0) | (begins == last_ids(left))
    state = jax.tree.map(lambda leaf: np.where(goes_on.reshape(-1, *(1,) * (leaf.ndim - 1)), leaf, 0), state)
    second, state = program(form)(tokens, state, right)
    got = np.concatenate([np.asarray(first)[:, :place], np.asarray(second)[:, place:]], axis=1)
    agree(got[ids != 0], np.asarray(whole)[ids != 0])
    jax.tree.map(agree, state, wanted)


@fuzz(campaign=100, form=st.sampled_from(QUICK), **ARRANGED)
def test_forms_agree(form, ids, seed, strength):
    """A wrong border, tail or decay of one form makes training and decoding two different models."""
    check_forms(form, ids, seed, strength)


@fuzz(campaign=100, form=st.sampled_from(QUICK), choice=CHOICE, **ARRANGED)
def test_a_document_and_padding_reach_no_other(form, ids, choice, seed, strength):
    """Not by one bit: else a row's neighbours would be part of what a document is trained on."""
    check_borders(form, ids, choice, seed, strength)


@fuzz(campaign=100, form=st.sampled_from(QUICK), place=PLACE, **ARRANGED)
def test_a_row_cut_anywhere_goes_on(form, ids, place, seed, strength):
    """A state handed over inside a document, behind padding or at a border is that of the whole row."""
    check_pieces(form, ids, place, seed, strength)


@pytest.mark.slow
@fuzz(quick=1, campaign=300, form=st.sampled_from(FORMS), choice=CHOICE, place=PLACE, **ARRANGED)
def test_all_of_that_in_every_form_of_every_op(form, ids, choice, place, seed, strength):
    check_forms(form, ids, seed, strength)
    check_borders(form, ids, choice, seed, strength)
    if OPS[form.op].state is not None:
        check_pieces(form, ids, place, seed, strength)


@pytest.mark.slow
@fuzz(
    quick=1,
    campaign=40,
    form=st.sampled_from(forms(sizes=(1, 4, 16, 64))),
    data=st.data(),
    length=st.sampled_from((1, 2, 17, 70)),
    seed=ARRANGED["seed"],
    strength=ARRANGED["strength"],
)
def test_gradients_agree_at_any_length(form, data, length, seed, strength):
    """A tail chunk that loses a gradient, or reads one out of bounds, trains another model."""
    ids = data.draw(segment_ids(ROWS, length))
    generator = np.random.default_rng(seed)
    tokens, state = OPS[form.op].tokens(generator, length, strength), OPS[form.op].state
    y, _ = jax.eval_shape(program(form), tokens, state, ids)
    real = np.expand_dims(ids != 0, tuple(range(2, len(y.shape))))
    cotangent = np.where(real, generator.normal(size=y.shape), 0).astype(np.float32)
    got, wanted = (gradients(each)(tokens, state, ids, cotangent) for each in (form, form.plainest))
    jax.tree.map(agree, got, wanted)
