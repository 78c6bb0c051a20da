"""Contract: a sequence in pieces, with the state carried, is the sequence."""

import jax
import jax.numpy as jnp
import numpy as np

from tests.mixers.rows import LENGTH, ROWS, SEGMENT_IDS, X
from tests.mixers.subjects import (
    ALL,
    DEFAULTS,
    WIDTH,
    agree,
    equal_bits,
    module,
    over,
    over_all_and_every_form,
    program,
    relative_rms,
    trees_agree,
)

PIECE = 8
every_subject = over_all_and_every_form()


def steps(subject, x, state):
    """Token by token: (y, the state after each token)."""
    outputs, states = [], []
    for place in range(x.shape[1]):
        y, state = program(subject)(x[:, place : place + 1], None, state)
        outputs.append(y)
        states.append(state)
    return np.concatenate(outputs, axis=1), states


def pieces(subject, x, ids, state):
    outputs = []
    for first in range(0, x.shape[1], PIECE):
        part = slice(first, first + PIECE)
        y, state = program(subject)(x[:, part], ids[:, part], state)
        outputs.append(y)
    return np.concatenate(outputs, axis=1), state


@every_subject
def test_token_by_token_equals_the_whole(subject):
    """The one-token form: window order, position, gate order, what is read before or after the write."""
    whole, state = program(subject)(X)
    y, states = steps(subject, X, module(subject).init_state(ROWS, LENGTH))
    assert y.shape == whole.shape  # a step that returned the cache's length would show here
    trees_agree(states[-1], state)
    agree(y, whole)
    halves = [relative_rms(y[:, part], whole[:, part]) for part in (slice(12), slice(12, LENGTH))]
    assert halves[1] <= max(1e-6, 3 * halves[0])  # errors do not grow along the sequence


@every_subject
def test_the_step_loop_repeats_its_bits(subject):
    """State that lives outside the state, or an undefined read, would differ on the second run."""
    empty = module(subject).init_state(ROWS, LENGTH)
    equal_bits(steps(subject, X, empty), steps(subject, X, empty))


@every_subject
def test_pieces_equal_the_whole(subject):
    """Documents that go on from the state, begin at a piece's first token, or hide behind padding there."""
    whole, state = program(subject)(X, SEGMENT_IDS)
    y, carried = pieces(subject, X, SEGMENT_IDS, module(subject).init_state(ROWS, LENGTH))
    real = SEGMENT_IDS != 0
    agree(y[real], whole[real])
    trees_agree(_read(subject, carried), _read(subject, state))


@every_subject
def test_pieces_after_single_tokens(subject):
    """One-token and many-token calls in turn leave states that the other understands."""
    whole, state = program(subject)(X)
    first, states = steps(subject, X[:, :3], module(subject).init_state(ROWS, LENGTH))
    ones = np.ones((ROWS, PIECE), np.int32)
    second, middle = program(subject)(X[:, 3 : 3 + PIECE], ones, states[-1])
    third, states = steps(subject, X[:, 3 + PIECE :], middle)
    agree(np.concatenate([first, second, third], axis=1), whole)
    trees_agree(states[-1], state)


@every_subject
def test_padding_alone_returns_the_state_bit_for_bit(subject):
    """A decay, shift or write that fires at padding."""
    _, state = pieces(subject, X, SEGMENT_IDS, module(subject).init_state(ROWS, LENGTH))
    loud = np.full((ROWS, PIECE, WIDTH), 100.0, np.float32)
    _, after = program(subject)(loud, np.zeros((ROWS, PIECE), np.int32), state)
    equal_bits(after, state)


@every_subject
def test_another_document_starts_from_the_empty_state(subject):
    """A state of document 1 must not reach document 2; that of document 2 must not be thrown away."""
    _, state = pieces(subject, X, np.ones((ROWS, LENGTH), np.int32), module(subject).init_state(ROWS, LENGTH))
    ids = np.full((ROWS, PIECE), 2, np.int32)
    y, after = program(subject)(X[:, :PIECE], ids, state)
    wanted, empty_after = program(subject)(X[:, :PIECE], ids, module(subject).init_state(ROWS, LENGTH))
    agree(y, wanted)
    trees_agree(_read(subject, after), _read(subject, empty_after))


@every_subject
def test_right_padded_prompts_go_on_as_alone(subject):
    """Prompts of 1 to 8 tokens, some shorter than the short convolution, then six steps without ids."""
    ids = np.array([[1] * (row + 1) + [0] * (PIECE - row - 1) for row in range(ROWS)], np.int32)
    _, state = program(subject)(X[:, :PIECE], ids, module(subject).init_state(ROWS, LENGTH))
    whole, _ = program(subject)(X)
    following = np.stack([X[row, row + 1 : row + 7] for row in range(ROWS)])
    y, _ = steps(subject, following, state)
    for row in range(ROWS):
        agree(y[row], whole[row, row + 1 : row + 7])


def traced(subject, x, state=None):
    """(y, state) as shapes."""
    mixer = module(subject)
    return jax.eval_shape(lambda x, state: mixer(x, state=state), x, state)


@over(ALL)
def test_dtypes_hold_over_steps(subject):
    """Caches and windows in the given dtype, everything else that floats in float32, for good."""
    mixer = module(subject)
    state = jax.eval_shape(lambda: mixer.init_state(2, LENGTH, jnp.bfloat16))
    wide = jax.eval_shape(lambda: mixer.init_state(2, LENGTH))
    for low, high in zip(_dtypes(state), _dtypes(wide), strict=True):
        assert high in (jnp.float32, jnp.int32)
        assert low in (high, jnp.bfloat16)
    x = jnp.asarray(X[:2], jnp.bfloat16)
    for tokens, before in ((x[:, :1], state), (x[:, :3], state), (x, None)):
        y, after = traced(subject, tokens, before)
        assert y.dtype == jnp.bfloat16
        assert _dtypes(after) == _dtypes(state)


@over(ALL)
def test_batch_sizes_in_turn(subject):
    """A state that remembers an older batch size."""
    for batch in (4, 1, 3):
        state = jax.eval_shape(lambda batch=batch: module(subject).init_state(batch, LENGTH))
        y, after = traced(subject, X[:batch, :1], state)
        assert y.shape == (batch, 1, WIDTH)
        assert jax.tree.map(jnp.shape, after) == jax.tree.map(jnp.shape, state)


@every_subject
def test_a_state_can_be_donated(subject):
    """An array that stands in two places of a state cannot be donated, and each step would copy the cache."""
    mixer = module(subject)
    for state in (mixer.init_state(2, LENGTH), program(subject)(X)[1]):
        leaves = jax.tree.leaves(state)
        assert len({leaf.unsafe_buffer_pointer() for leaf in leaves}) == len(leaves)


@over(DEFAULTS)
def test_one_compile_a_shape(subject):
    """A Python number that changes from call to call would compile each step anew."""
    _, states = steps(subject, X[:, :1], module(subject).init_state(ROWS, LENGTH))
    before = program(subject).compilations()
    steps(subject, X[:, 1:4], states[-1])
    assert program(subject).compilations() == before


def _dtypes(state):
    return [leaf.dtype for leaf in jax.tree.leaves(state)]


def _read(subject, state):
    """The state without what it no longer reads: cache slots past `position` keep an older document."""

    def in_use(cache, tokens_a_slot):
        used = np.arange(cache.shape[2])[None, :] < np.asarray(state.position)[:, None] // tokens_a_slot
        return np.where(used[:, None, :, None], cache, 0)

    sizes = {"keys": 1, "values": 1, "history": 1}
    sizes |= dict.fromkeys(("pooled_keys", "pooled_values"), getattr(module(subject), "pool_size", 1))
    caches = {name: size for name, size in sizes.items() if hasattr(state, name)}
    return state._replace(**{name: in_use(getattr(state, name), size) for name, size in caches.items()})
