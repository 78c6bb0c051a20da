"""Contract: forms agree, documents are apart and states go on in any arrangement, not only that of `rows`."""

import jax
import numpy as np
import pytest
from hypothesis import strategies as st

from seqmodels.mixers import MIXERS
from tests.fuzzed_rows import a_document, cut, segment_ids
from tests.fuzzing import fuzz
from tests.mixers.rows import LENGTH
from tests.mixers.subjects import ALL, DEFAULTS, WIDTH, Subject, agree, module, normal, program

ROWS = 4
ARRANGED = {
    "ids": segment_ids(ROWS, LENGTH),
    "choice": st.integers(0, 99),
    "place": st.integers(0, LENGTH),
    "seed": st.integers(0, 2**32 - 1),
}


# In every run one with a cache and one with a recurrence; all of them in the slow test.
QUICK = [each for each in DEFAULTS if each.mixer in ("SoftmaxAttention", "Mamba")]


def check(subject, ids, choice, place, seed):
    """Documents are apart, and a row cut anywhere goes on; with programs of one shape."""
    run, real = program(subject), ids != 0
    x = normal(ROWS, LENGTH, WIDTH, seed=seed)
    empty = module(subject).init_state(ROWS, LENGTH)
    y, state = run(x, ids, empty)
    document = a_document(ids, choice)
    changed, _ = run(np.where((document | ~real)[:, :, None], -30 * x, x), ids, empty)
    untouched = real & ~document
    np.testing.assert_array_equal(np.asarray(changed)[untouched], np.asarray(y)[untouched])

    left, right = cut(ids, place)
    first, carried = run(x, left, empty)
    second, after = run(x, right, carried)
    joined = np.where((np.arange(LENGTH) < place)[None, :, None], first, second)
    agree(joined[real], y[real])
    jax.tree.map(np.testing.assert_array_equal, after.last_id, state.last_id)


@fuzz(campaign=100, subject=st.sampled_from(QUICK), **ARRANGED)
def test_any_arrangement_of_documents(subject, ids, choice, place, seed):
    """A border or padding where no example put it leaks, or stops a form from being the same model."""
    check(subject, ids, choice, place, seed)


@pytest.mark.slow
@fuzz(quick=1, campaign=200, subject=st.sampled_from(ALL), **ARRANGED)
def test_any_arrangement_of_documents_in_every_mixer(subject, ids, choice, place, seed):
    """The same for the others, and each form is the same model."""
    check(subject, ids, choice, place, seed)
    if not subject.variant:
        x, real = normal(ROWS, LENGTH, WIDTH, seed=seed), ids != 0
        y, _ = program(subject)(x, ids)
        for method in MIXERS[subject.mixer].methods:
            other, _ = program(Subject(subject.mixer, method))(x, ids)
            agree(other[real], y[real])
