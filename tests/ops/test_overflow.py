"""A document whose numbers overflow reaches no other document: at a border the state is selected away."""

import jax
import numpy as np
import pytest

from tests.ops.fuzzed_ops import OPS, ROWS, forms, program

LENGTH = 40
DECAYS = ("log_decay", "a", "dt", "beta")
# Inside a chunk the delta rules solve one system for all its tokens, so that an overflow goes on to its end.
SOLVED = {("delta_rule", "chunked"), ("dplr", "chunked")}


@pytest.mark.parametrize("form", forms(sizes=(4, 16)), ids=lambda form: "-".join(map(str, form)))
@pytest.mark.parametrize("border", [13, 16])
def test_overflow_stays_in_its_document(form, border):
    """Wrong here: 0 times an infinite state, which is no number, in the document after it."""
    if (form.op, form.method) in SOLVED:
        border = -(-border // form.size) * form.size
    op = OPS[form.op]
    tokens = op.tokens(np.random.default_rng(0), LENGTH, 0.1)
    ids = np.repeat([[1] * border + [2] * (LENGTH - border)], ROWS, axis=0).astype(np.int32)
    huge = {
        name: array if name in DECAYS else np.concatenate([array[:, :border] * 1e37, array[:, border:]], 1)
        for name, array in tokens.items()
    }
    assert all(np.isfinite(array).all() for array in huge.values())
    of_both = zip(program(form)(huge, op.state, ids), program(form)(tokens, op.state, ids), strict=True)
    (y, wanted), (state, wanted_state) = of_both
    np.testing.assert_array_equal(np.asarray(y)[:, border:], np.asarray(wanted)[:, border:])
    jax.tree.map(np.testing.assert_array_equal, state, wanted_state)
