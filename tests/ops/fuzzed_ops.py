"""Every op in every form, small, as one function of tokens, state and ids, with tokens drawn at random."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from seqmodels import ops

ROWS, HEADS, KEYS, VALUES, WIDTH = 3, 2, 4, 3, 5


class Op(NamedTuple):
    """tokens: (generator, T, strength of decays) -> {name: [B, T, ...]}, all that is given a token at a time.

    run: (tokens, state, segment_ids, method, size) -> (y, state). state: the empty one; None where there is
    none. methods: the first is the plainest. chunked: the one among them that has chunks.
    """

    tokens: Callable
    run: Callable
    state: object
    methods: tuple[str, ...]
    chunked: str | None = None


class Form(NamedTuple):
    """One way to compute an op; size: of its chunks."""

    op: str
    method: str
    size: int

    @property
    def plainest(self) -> "Form":
        return Form(self.op, OPS[self.op].methods[0], 1)


def _normal(random, length, *shape):
    return random.normal(size=(ROWS, length, *shape)).astype(np.float32)


def _log_decay(random, length, strength, *shape):
    return (-strength * random.exponential(size=(ROWS, length, *shape))).astype(np.float32)


def _unit(array):
    return (array / np.linalg.norm(array, axis=-1, keepdims=True)).astype(np.float32)


def _attended(random, length, _):
    q, k = (_normal(random, length, HEADS, KEYS) for _ in range(2))
    return {"q": q, "k": k, "v": _normal(random, length, HEADS, VALUES)}


def _decayed(*shape):
    def tokens(random, length, strength):
        q, k = (np.abs(_normal(random, length, HEADS, KEYS)) + 0.1 for _ in range(2))
        v = _normal(random, length, HEADS, VALUES)
        return {"q": q, "k": k, "v": v, "log_decay": _log_decay(random, length, strength, *shape)}

    return tokens


def _corrected(random, length, strength):
    tokens = _decayed(HEADS)(random, length, strength)
    beta = 2 * random.uniform(size=(ROWS, length, HEADS)).astype(np.float32)
    return {**tokens, "k": _unit(_normal(random, length, HEADS, KEYS)), "beta": beta}


def _ranked(random, length, strength):
    tokens = _decayed(HEADS, KEYS)(random, length, strength)
    direction = _unit(_normal(random, length, HEADS, KEYS))
    share = random.uniform(size=(ROWS, length, HEADS, 1)).astype(np.float32)
    return {**tokens, "a": -direction, "b": direction * share}


def _scanned(random, length, strength):
    dt = strength * random.exponential(size=(ROWS, length, WIDTH)).astype(np.float32) + 1e-3
    B, C = (_normal(random, length, KEYS) for _ in range(2))
    return {"x": _normal(random, length, WIDTH), "dt": dt.astype(np.float32), "B": B, "C": C}


def _recurrent(random, length, strength):
    return {"a": np.exp(_log_decay(random, length, strength, WIDTH)), "x": _normal(random, length, WIDTH)}


def _plain(random, length, _):
    return {"x": _normal(random, length, WIDTH)}


def _fixed(*shape):
    """What is the same for all tokens."""
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def _rates():
    return -np.exp(_fixed(WIDTH, KEYS)) + 1j * _fixed(WIDTH, KEYS)


def _zeros(*shape, dtype=np.float32):
    return np.zeros((ROWS, *shape), dtype)


def _call(op, sized="chunk_size"):
    def run(tokens, state, ids, method, size):
        return op(**tokens, initial_state=state, segment_ids=ids, method=method, **{sized: size})

    return run


def _unsized(op, *fixed, **settings):
    def run(tokens, state, ids, method, size):
        return op(*tokens.values(), *fixed, initial_state=state, segment_ids=ids, method=method, **settings)

    return run


def _convolved(tokens, state, ids, method, size):
    return ops.causal_conv(tokens["x"], _fixed(4, WIDTH), initial_state=state, segment_ids=ids)


def _softmax(tokens, state, ids, method, size):
    o = ops.softmax_attention(**tokens, segment_ids=ids, window=9, method=method, block_size=size)
    return o, state


def _long(tokens, state, ids, method, size):
    return ops.long_convolution(tokens["x"], _fixed(30, WIDTH), segment_ids=ids, method=method), state


def _selected(tokens, state, ids, method, size):
    return ops.selective_scan(
        **tokens,
        A=-np.exp(_fixed(WIDTH, KEYS)),
        D=_fixed(WIDTH),
        initial_state=state,
        segment_ids=ids,
        method=method,
        chunk_size=size,
    )


_MATRIX = _zeros(HEADS, KEYS, VALUES)
_SUMS = ops.LinearAttentionState(_MATRIX, _zeros(HEADS, KEYS))
_LINEAR = functools.partial(ops.linear_attention, normalize=True)

OPS = {
    "linear_recurrence": Op(
        _recurrent, _unsized(ops.linear_recurrence), _zeros(WIDTH), ("sequential", "associative")
    ),
    "linear_attention": Op(
        _decayed(HEADS),
        _call(ops.linear_attention),
        ops.LinearAttentionState(_MATRIX),
        ("sequential", "associative", "chunked", "parallel"),
        "chunked",
    ),
    "normalized": Op(
        _decayed(HEADS, KEYS), _call(_LINEAR), _SUMS, ("sequential", "associative", "chunked"), "chunked"
    ),
    "delta_rule": Op(_corrected, _call(ops.delta_rule), _MATRIX, ("sequential", "chunked"), "chunked"),
    "dplr": Op(_ranked, _call(ops.dplr), _MATRIX, ("sequential", "chunked"), "chunked"),
    "selective_scan": Op(
        _scanned, _selected, _zeros(WIDTH, KEYS), ("sequential", "associative", "chunked"), "chunked"
    ),
    "diagonal_state_space": Op(
        _plain,
        _unsized(ops.diagonal_state_space, _rates().astype(np.complex64), _rates().astype(np.complex64)),
        _zeros(WIDTH, KEYS, dtype=np.complex64),
        ("sequential", "associative", "convolution"),
    ),
    "softmax_attention": Op(_attended, _softmax, None, ("parallel", "blockwise"), "blockwise"),
    "causal_conv": Op(_plain, _convolved, _zeros(3, WIDTH), ("only",)),
    "long_convolution": Op(_plain, _long, None, ("blockwise", "fft")),
}


def forms(sizes: tuple[int, ...]) -> list[Form]:
    """All forms of all ops, with these sizes of chunks."""
    return [
        Form(name, method, size)
        for name, op in OPS.items()
        for method in op.methods
        for size in (sizes if method == op.chunked else (1,))
    ]


@functools.cache
def program(form: Form):
    """(tokens, state, segment_ids) -> (y, state), compiled once a length."""
    return jax.jit(lambda tokens, state, ids: OPS[form.op].run(tokens, state, ids, form.method, form.size))


@functools.cache
def gradients(form: Form):
    """(tokens, state, segment_ids, cotangent of y) -> gradients of the tokens, compiled once a length."""

    def run(tokens, state, ids, cotangent):
        _, pull = jax.vjp(
            lambda tokens: OPS[form.op].run(tokens, state, ids, form.method, form.size)[0], tokens
        )
        return pull(cotangent)[0]

    return jax.jit(run)
