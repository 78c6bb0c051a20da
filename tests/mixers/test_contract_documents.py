"""Contract: a document knows nothing of its neighbours in the row, and padding is nothing at all."""

import jax
import jax.numpy as jnp
import numpy as np

from tests.mixers.rows import LENGTH, ROWS, SEGMENT_IDS, X, alone, documents
from tests.mixers.subjects import (
    ALL,
    WIDTH,
    agree,
    equal_bits,
    gradients,
    module,
    normal,
    over,
    over_all_and_every_form,
    program,
    trees_agree,
)

REAL = SEGMENT_IDS != 0
every_subject = over_all_and_every_form()


@every_subject
def test_no_document_moves_a_bit_of_another(subject):
    """Attention, state, convolution, normaliser or position that crosses a border changes a bit."""
    y, _ = program(subject)(X, SEGMENT_IDS)
    assert jnp.isfinite(y).all()
    for row, _, places in documents():
        changed = np.array(X)
        changed[row, places] *= -30.0
        other, _ = program(subject)(changed, SEGMENT_IDS)
        untouched = REAL.copy()
        untouched[row, places] = False
        np.testing.assert_array_equal(np.asarray(other)[untouched], np.asarray(y)[untouched])
        assert (np.asarray(other)[row, places] != np.asarray(y)[row, places]).any()


@every_subject
def test_padding_moves_no_bit(subject):
    """What stands at padding, left, right or inside, reaches no output, window, cache, position or state."""
    wanted = program(subject)(X, SEGMENT_IDS)
    loud, state = program(subject)(np.where(REAL[:, :, None], X, 100.0), SEGMENT_IDS)
    assert jnp.isfinite(loud).all()
    np.testing.assert_array_equal(np.asarray(loud)[REAL], np.asarray(wanted[0])[REAL])
    equal_bits(state, wanted[1])


@every_subject
def test_packed_equals_alone(subject):
    """Every document of a packed row reads as it would in a row of its own without segment ids."""
    packed, _ = program(subject)(X, SEGMENT_IDS)
    for x, _, batch in alone():
        y, _ = program(subject)(x)  # causal: what follows the document does not matter
        for target, (row, _, places) in enumerate(batch):
            agree(packed[row, places], y[target, : len(places)])


@every_subject
def test_packed_gradients_are_the_sum_of_those_alone(subject):
    """A gradient that crosses a border, or is lost at one, would make packing change the training."""
    cotangent = np.where(REAL[:, :, None], normal(ROWS, LENGTH, WIDTH, seed=1), 0.0).astype(np.float32)
    _, (of_params, of_x) = gradients(subject)(X, cotangent, SEGMENT_IDS)
    assert (np.asarray(of_x)[~REAL] == 0).all()
    total = jax.tree.map(np.zeros_like, of_params)
    for (x, ids, batch), (weights, _, _) in zip(alone(), alone(cotangent), strict=True):
        _, (part, part_of_x) = gradients(subject)(x, weights, ids)
        total = jax.tree.map(np.add, total, jax.device_get(part))
        for target, (row, _, places) in enumerate(batch):
            agree(of_x[row, places], part_of_x[target, : len(places)])
    trees_agree(of_params, total)


@every_subject
def test_the_state_is_that_of_the_last_document(subject):
    """Rows with padding anywhere leave the state of stepping through their last document's tokens alone."""
    _, got = program(subject)(X, SEGMENT_IDS)
    rows = [max((d for d in documents() if d[0] == row), key=lambda d: d[2][-1]) for row in range(ROWS - 1)]
    tokens = np.zeros((ROWS, LENGTH, WIDTH), np.float32)
    for row, _, places in rows:
        tokens[row, : len(places)] = X[row, places]
    state = module(subject).init_state(ROWS, LENGTH)
    after = []
    for place in range(LENGTH):
        _, state = program(subject)(tokens[:, place : place + 1], None, state)
        after.append(state)
    for row, i, places in rows:
        wanted = jax.tree.map(lambda leaf, row=row: leaf[row], after[len(places) - 1])._replace(last_id=i)
        trees_agree(jax.tree.map(lambda leaf, row=row: leaf[row], got), wanted)
    empty = module(subject).init_state(1, LENGTH)
    equal_bits(jax.tree.map(lambda leaf: leaf[ROWS - 1 :], got), empty)


@over(ALL)
def test_one_row_alone_equals_it_in_the_batch(subject):
    """A mask that is skipped, or an axis that is squeezed, at batch 1."""
    y, state = program(subject)(X, SEGMENT_IDS)
    for row in range(ROWS):
        one, one_state = program(subject)(X[row : row + 1], SEGMENT_IDS[row : row + 1])
        agree(one[0][REAL[row]], y[row][REAL[row]])
        trees_agree(one_state, jax.tree.map(lambda leaf, row=row: leaf[row : row + 1], state))
