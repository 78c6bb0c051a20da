"""What the contract is tested on: every registered mixer in every form that it offers, small and randomised.

A mixer that registers itself is tested without a word here. Programs and parameters are kept for the session,
so that tests share compilations.
"""

import functools
import inspect
from typing import NamedTuple

import jax
import numpy as np
import pytest
from flax import nnx

from seqmodels.mixers import MIXERS

WIDTH = 32
# Small sizes for those arguments that a mixer has.
SMALL = {"heads": 2, "chunk_size": 16, "block_size": 16}
# Settings beyond the defaults that the contract must hold for as well: name -> (mixer, arguments).
VARIANTS = {
    "unconvolved": ("MLSTM", {"head_dim": 8, "conv_width": None}),
    "windowed": ("SoftmaxAttention", {"window": 5, "kv_heads": 1, "conv_width": 4, "qk_norm": True}),
    "alibi": ("SoftmaxAttention", {"position_encoding": "alibi", "softcap": 3.0, "sinks": True}),
    "learned": (
        "CompressedAttention",
        {
            "window": 5,
            "pool_size": 4,
            "pooling": "learned",
            "kv_heads": 1,
            "conv_width": 4,
            "method": "blockwise",
        },
    ),
    "strided": (
        "CompressedAttention",
        {"window": 1, "pool_size": 3, "pooling": "strided", "position_encoding": "none"},
    ),
    "bounded": ("HGRN2", {"layer": 1, "layers": 3, "conv_width": 4}),
    "deep": ("LightningAttention", {"layer": 2, "layers": 3, "conv_width": 4}),
    "many-heads": ("Mamba2", {"head_dim": 16, "state_size": 8}),
    "narrow-values": ("Retention", {"value_dim": 8, "conv_width": 4}),
    "one-head": ("GatedLinearAttention", {"heads": 1, "gate_rank": 3, "conv_width": 4}),
    "reflecting": ("DeltaNet", {"negative_eigenvalues": True, "conv_width": 2}),
    "few-values": ("GatedDeltaNet", {"value_dim": 8, "heads": 1}),
    "safe": ("KimiDeltaAttention", {"safe_gate": True, "gate_rank": 3}),
    "few-ranks": ("RWKV7", {"rank": 3, "head_dim": 8, "layer": 1, "layers": 2}),
    "relu": ("LinearAttention", {"feature_map": "relu", "conv_width": 4}),
    "long-short": ("LongConvolution", {"conv_width": 4, "hidden": 8, "method": "fft"}),
    "wide-recurrence": ("RGLRU", {"recurrence_width": 48, "heads": 3}),
    "unnormalised": ("LinearAttention", {"feature_map": "identity", "normalize": False}),
}


class Subject(NamedTuple):
    """A mixer by name, the form of its computation, and a variant of its settings ("" for the defaults)."""

    mixer: str
    method: str
    variant: str = ""

    def __str__(self):
        return "-".join(part for part in (self.mixer, self.variant, self.method) if part)


# Tests that hold for one form if they hold for another take the defaults and the variants.
DEFAULTS = [Subject(name, "auto") for name in MIXERS]
FORMS = [Subject(name, method) for name, mixer in MIXERS.items() for method in mixer.methods]
ALTERED = [Subject(name, "auto", variant) for variant, (name, _) in VARIANTS.items()]
ALL = DEFAULTS + ALTERED

# Of these mixers every form is tested always; of the others those that are the plain forms of a faster one
# are left to `make test-all`, as most variants are: the tests of the ops hold each method to its equation.
CORE = {"SoftmaxAttention", "LinearAttention", "Mamba"}
PLAIN_FORMS = {"sequential", "associative", "parallel"}
QUICK_VARIANTS = {"", "windowed"}
# Their states and documents are handled by code that they share with a mixer that is tested always.
KIN = {
    "Retention",  # of GatedLinearAttention
    "LightningAttention",
    "HGRN2",
    "MLSTM",
    "DeltaNet",  # of GatedDeltaNet
    "KimiDeltaAttention",
    "S4D",  # of S5
    "LRU",
}


def marks(subject: Subject) -> tuple:
    """`slow` or nothing."""
    plain = subject.method in PLAIN_FORMS and not PLAIN_FORMS.issuperset(MIXERS[subject.mixer].methods)
    quick = subject.variant in QUICK_VARIANTS and (subject.mixer in CORE or not plain)
    return () if quick else (pytest.mark.slow,)


def over(subjects: list[Subject]):
    """Runs a test over subjects; some of them among the slow tests."""
    chosen = [pytest.param(subject, marks=marks(subject)) for subject in subjects]
    return pytest.mark.parametrize("subject", chosen, ids=str)


def over_all_and_every_form():
    """The same over ALL, and over every form by name among the slow tests, with all forms of KIN."""
    kin = (pytest.mark.slow,)
    chosen = [pytest.param(subject, marks=kin if subject.mixer in KIN else marks(subject)) for subject in ALL]
    chosen += [pytest.param(subject, marks=pytest.mark.slow) for subject in FORMS]
    return pytest.mark.parametrize("subject", chosen, ids=str)


def arguments(subject: Subject, **changes) -> dict:
    known = inspect.signature(MIXERS[subject.mixer].__init__).parameters
    small = {name: value for name, value in SMALL.items() if name in known}
    own = VARIANTS[subject.variant][1] if subject.variant else {}
    return {"method": subject.method, **small, **own, **{k: v for k, v in changes.items() if k in known}}


def randomised(params, seed: int = 0):
    """Every parameter from N(0, 0.2): ones and zeros hide faults."""
    leaves, tree = jax.tree.flatten(params)
    generator = np.random.default_rng(seed)
    return tree.unflatten([generator.normal(0, 0.2, leaf.shape).astype(np.float32) for leaf in leaves])


@functools.cache
def build(subject: Subject, width: int = WIDTH, changes: tuple = ()) -> tuple[nnx.GraphDef, dict]:
    """(graphdef, randomised parameters)."""
    settings = arguments(subject, **dict(changes))
    mixer = nnx.eval_shape(lambda: MIXERS[subject.mixer](width, rngs=nnx.Rngs(0), **settings))
    graphdef, params = nnx.split(mixer, nnx.Param)
    return graphdef, randomised(nnx.to_pure_dict(params))


def module(subject: Subject):
    return nnx.merge(*build(subject))


@functools.cache
def program(subject: Subject, changes: tuple = ()):
    """(x, segment_ids=None, state=None) -> (y, state), compiled once a shape."""
    graphdef, params = build(subject, changes=changes)
    run = jax.jit(lambda params, x, ids, state: nnx.merge(graphdef, params)(x, segment_ids=ids, state=state))
    call = functools.wraps(run)(lambda x, segment_ids=None, state=None: run(params, x, segment_ids, state))
    call.compilations = run._cache_size
    return call


def as_used(mixer: str) -> dict | None:
    """Compiler options: where last digits are looked at, those of a run, whatever those of the tests are."""
    rounds_hard = mixer in ("SoftmaxAttention", "CompressedAttention")
    return {"xla_backend_optimization_level": 3} if rounds_hard else None


@functools.cache
def gradients(subject: Subject, changes: tuple = ()):
    """(x, cotangent, segment_ids=None) -> (y, gradients of (params, x)), compiled once a shape."""
    graphdef, params = build(subject, changes=changes)

    @functools.partial(jax.jit, compiler_options=as_used(subject.mixer))
    def run(params, x, cotangent, ids):
        y, pull = jax.vjp(lambda params, x: nnx.merge(graphdef, params)(x, segment_ids=ids)[0], params, x)
        return y, pull(cotangent)

    return lambda x, cotangent, segment_ids=None: run(params, x, cotangent, segment_ids)


def normal(*shape, seed: int = 0, size: float = 1.0):
    return (size * np.random.default_rng(seed).normal(size=shape)).astype(np.float32)


def relative_rms(got, wanted) -> float:
    """The root mean square of the difference over that of `wanted`; 0 / 0 is 0."""
    got, wanted = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
    difference, size = np.sqrt(np.mean((got - wanted) ** 2)), np.sqrt(np.mean(wanted**2))
    return float(difference if size == 0 else difference / size)


def agree(got, wanted) -> None:
    """Largest difference at most 1e-4 of the largest magnitude, or of 1 where that is smaller."""
    got, wanted = np.asarray(got, np.float64), np.asarray(wanted, np.float64)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-4 * max(1.0, np.abs(wanted).max(initial=0.0)))


def trees_agree(got, wanted) -> None:
    assert jax.tree.structure(got) == jax.tree.structure(wanted)
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        agree(one, other)


def equal_bits(got, wanted) -> None:
    assert jax.tree.structure(got) == jax.tree.structure(wanted)
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
