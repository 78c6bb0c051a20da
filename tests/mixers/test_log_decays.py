"""What a mixer says of its memory is what its recurrence does: a state that differs by D, by M D a token on.

Every recurrence is linear in its memory, so the difference of two runs of one token is the transition alone,
whatever the token writes.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqmodels.mixers import MIXERS
from tests.mixers.rows import LENGTH, ROWS, SEGMENT_IDS, X
from tests.mixers.subjects import ALL, DEFAULTS, Subject, agree, module, normal, over, program

# Where each mixer keeps what fades. The others keep a cache, whose tokens stay as they are.
MEMORIES = {
    "LinearAttention": ("memory", "kv"),
    "Retention": ("memory",),
    "LightningAttention": ("memory",),
    "GatedLinearAttention": ("memory",),
    "HGRN2": ("memory",),
    "Mamba2": ("memory",),
    "MLSTM": ("memory", "C"),
    "DeltaNet": ("memory",),
    "GatedDeltaNet": ("memory",),
    "KimiDeltaAttention": ("memory",),
    "RWKV7": ("memory",),
    "Mamba": ("scan",),
    "RGLRU": ("hidden",),
    "LRU": ("hidden",),
    "S5": ("hidden",),
    "S4D": ("hidden",),
}
CACHES = {"SoftmaxAttention", "CompressedAttention", "LongConvolution"}
NEXT = np.asarray(normal(ROWS, 1, X.shape[-1], seed=1))
LONGER = np.concatenate([X, NEXT], axis=1)
COMPLEX = {"LRU", "S5", "S4D"}
RANK_ONE = ("DeltaNet", "GatedDeltaNet", "KimiDeltaAttention", "RWKV7")
TRANSITIONS = [Subject(mixer, "auto") for mixer in RANK_ONE]
TRANSITIONS += [Subject("DeltaNet", "auto", "reflecting"), Subject("KimiDeltaAttention", "auto", "safe")]
DIAGONAL = [subject for subject in ALL if subject.mixer in MEMORIES and subject.mixer not in RANK_ONE]


def decays(subject, x=X, segment_ids=None):
    mixer = module(subject)
    return jax.jit(lambda x, ids: mixer.log_decays(x, segment_ids=ids))(x, segment_ids)


def memory(state, path):
    return memory(getattr(state, path[0]), path[1:]) if path else state


def with_memory(state, path, value):
    if not path:
        return value
    return state._replace(**{path[0]: with_memory(getattr(state, path[0]), path[1:], value)})


def after_one_token(subject, difference):
    """What is left of `difference`, put into the memory before NEXT, a token more than X."""
    path = MEMORIES[subject.mixer]
    _, state = program(subject)(X)
    before = memory(state, path)
    _, plain = program(subject)(NEXT, None, state)
    _, moved = program(subject)(NEXT, None, with_memory(state, path, before + difference))
    return np.asarray(memory(moved, path)) - np.asarray(memory(plain, path))


def test_every_mixer_has_been_decided_about():
    """A mixer with a fading state that says nothing would be printed as one that forgets nothing."""
    assert set(MIXERS) == set(MEMORIES) | CACHES
    silent = {name for name in MIXERS if not decays(Subject(name, "auto"))}
    assert silent == CACHES


@over(DIAGONAL)
def test_the_state_fades_by_what_is_said(subject):
    """A gate before its nonlinearity, of the wrong token or in the wrong order of channels."""
    (name, g), *others = decays(subject, LONGER).items()
    assert name == "gate" and not others
    empty = module(subject).init_state(ROWS, LENGTH)
    difference = normal(*memory(empty, MEMORIES[subject.mixer]).shape, seed=3)
    left = after_one_token(subject, difference)
    if subject.mixer in COMPLEX:
        left, difference = np.linalg.norm(left, axis=-1), np.linalg.norm(difference, axis=-1)
    factor = np.exp(np.asarray(g[:, -1]))
    factor = factor.reshape(*factor.shape, *[1] * (difference.ndim - factor.ndim))
    np.testing.assert_allclose(left, factor * difference, rtol=0, atol=1e-5)


@pytest.mark.parametrize("subject", TRANSITIONS, ids=str)
def test_the_delta_rules_transition_is_what_is_said(subject):
    """From the transition M itself: its gate, its key, and what it leaves along both kinds of direction."""
    said = {name: np.asarray(values[:, -1], np.float64) for name, values in decays(subject, LONGER).items()}
    shape = module(subject).init_state(ROWS, LENGTH).memory.shape
    K = shape[2]
    M = after_one_token(subject, np.broadcast_to(np.eye(K, shape[3], dtype=np.float32), shape))[..., :K]
    M = M.astype(np.float64)

    gate = np.exp(said.get("gate", np.zeros(shape[:2])))
    D = (gate if gate.ndim == 3 else gate[..., None])[..., None] * np.eye(K)
    left, sizes, right = np.linalg.svd(M - D)
    assert (sizes[..., 1] < 1e-5).all()  # what the gate does not explain is one outer product
    assert (sizes[..., 0] > 1e-3).all()
    # β k (e^g k)ᵀ has the key on its left, (κ α) κᵀ on its right.
    key = right[..., 0, :] if subject.mixer == "RWKV7" else left[..., :, 0]
    kept = np.linalg.norm(np.einsum("bhij,bhi->bhj", M, key), axis=-1)
    np.testing.assert_allclose(np.exp(said["written"]), kept, rtol=0, atol=1e-5)
    mean_square = (M**2).sum(axis=(-1, -2)) / K
    np.testing.assert_allclose(np.exp(2 * said["random"]), mean_square, rtol=0, atol=1e-5)


@over(DEFAULTS)
def test_shapes_and_bounds(subject):
    """Rows of bfloat16 as well: float32, one number or more for each token, none above 0."""
    for x in (X, jnp.asarray(X, jnp.bfloat16)):
        for name, g in decays(subject, x).items():
            assert name in ("gate", "written", "random")
            assert g.dtype == jnp.float32
            assert g.shape[:2] == (ROWS, LENGTH) and g.ndim >= 3
            assert (g <= 0).all()


@over(DEFAULTS)
def test_documents_do_not_meet(subject):
    """A short convolution that reads the document before would give the first tokens another gate."""
    row, places = 1, slice(5, 11)  # the second of its three documents
    packed = decays(subject, X, SEGMENT_IDS)
    alone = decays(subject, X[row : row + 1, places])
    for name, g in packed.items():
        agree(g[row, places], alone[name][0])
