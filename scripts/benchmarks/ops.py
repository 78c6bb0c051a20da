"""The ops: forward and backward in float32, 2 rows, 4 heads of 64 (Mamba: 512 channels, 16 states)."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.comparison import Comparison, Contender, Target
from seqmodels.ops import (
    delta_rule,
    dplr,
    linear_attention,
    linear_recurrence,
    selective_scan,
    softmax_attention,
)

ROWS, HEADS, WIDTH = 2, 4, 64
CHANNELS, STATES = 512, 16


def comparisons():
    """The tables, in the order they are printed; each is compiled when its turn comes."""
    yield attention(4096)
    yield decayed("decay a head and token", 2048, factor=7)
    yield decayed("decay a key channel and token", 2048, factor=2.5)
    yield corrected("delta rule", 2048, factor=7)
    yield corrected("delta rule, decay a head and token", 2048, factor=7)
    yield corrected("delta rule, decay a key channel and token", 2048, factor=2.5)
    yield corrected("dplr", 2048, factor=2.5)
    yield mamba(2048)
    yield softmax(4096)
    yield recurrence(2048)


def attention(length):
    """Linear attention in chunks against its token scan and the faster form of softmax attention.

    The whole-square form, slower by the table of softmax attention, is left out: the 1.6 GB that it frees
    each turn, every other contender would have to fault in again.
    """
    q, k, v = _normal((ROWS, length, HEADS, WIDTH), 3)
    return Comparison(
        f"linear attention, T {length}",
        (
            _contender("chunked", _linear("chunked"), q, k, v),
            _contender("token scan", _linear("sequential"), q, k, v),
            _contender("softmax blockwise", _softmax("blockwise"), q, k, v),
        ),
        (
            Target("chunked", ("token scan",), 5),
            Target("chunked", ("softmax blockwise",), 8),
        ),
    )


def decayed(title, length, factor):
    """Linear attention with decay in chunks against its token scan."""
    q, k, v = _normal((ROWS, length, HEADS, WIDTH), 3)
    (g,) = _normal(q.shape if "channel" in title else q.shape[:3], 1)
    return Comparison(
        f"linear attention, {title}, T {length}",
        (
            _contender("chunked", _linear("chunked"), q, k, v, -0.1 * jnp.abs(g)),
            _contender("token scan", _linear("sequential"), q, k, v, -0.1 * jnp.abs(g)),
        ),
        (Target("chunked", ("token scan",), factor),),
    )


def corrected(title, length, factor):
    """The delta rule, or its generalisation dplr, in chunks against its token scan."""
    q, k, v, g = _normal((ROWS, length, HEADS, WIDTH), 4)
    k, g = k / jnp.linalg.norm(k, axis=-1, keepdims=True), -0.1 * jnp.abs(g)
    (beta,) = _normal(q.shape[:3], 1)
    beta = jax.nn.sigmoid(beta)
    if title == "dplr":
        arrays, op = (q, k, v, -k, beta[..., None] * k, g), _dplr
    else:
        g = () if "decay" not in title else (g,) if "channel" in title else (g[..., 0],)
        arrays, op = (q, k, v, beta, *g), _delta
    return Comparison(
        f"{title}, T {length}",
        (
            _contender("chunked", op("chunked"), *arrays),
            _contender("token scan", op("sequential"), *arrays),
        ),
        (Target("chunked", ("token scan",), factor),),
    )


def mamba(length):
    """Mamba's scan in chunks against its token scan and against all states at once."""
    (x, dt), (b, c) = _normal((ROWS, length, CHANNELS), 2), _normal((ROWS, length, STATES), 2)
    rates = -jnp.broadcast_to(jnp.arange(1.0, STATES + 1), (CHANNELS, STATES))

    def scan(method):
        return lambda *arrays: selective_scan(*arrays, method=method)[0]

    arrays = x, 0.01 * jnp.abs(dt), rates, b, c
    return Comparison(
        f"selective scan, T {length}",
        (
            _contender("chunked", scan("chunked"), *arrays),
            _contender("token scan", scan("sequential"), *arrays),
            _contender("associative", scan("associative"), *arrays),
        ),
        (
            Target("chunked", ("token scan",), 2.5),
            Target("chunked", ("token scan",), 8, "memory"),
        ),
    )


def softmax(length):
    """Softmax attention in blocks against the whole square of logits."""
    q, k, v = _normal((ROWS, length, HEADS, WIDTH), 3)
    return Comparison(
        f"softmax attention, T {length}",
        (
            _contender("blockwise", _softmax("blockwise"), q, k, v),
            _contender("whole", _softmax("parallel"), q, k, v),
        ),
        (Target("blockwise", ("whole",), 2), Target("blockwise", ("whole",), 3, "memory")),
    )


def recurrence(length):
    """The elementwise recurrence, whose default is chosen by this table."""
    a, x = _normal((ROWS, length, CHANNELS), 2)

    def scan(method):
        return lambda a, x: linear_recurrence(jax.nn.sigmoid(a), x, method=method)[0]

    return Comparison(
        f"linear recurrence, T {length}",
        (
            _contender("sequential", scan("sequential"), a, x),
            _contender("associative", scan("associative"), a, x),
        ),
        (Target("sequential", ("associative",), None),),
    )


def _normal(shape, count):
    numbers = np.random.default_rng(0)
    return tuple(jnp.asarray(numbers.normal(size=shape), jnp.float32) for _ in range(count))


def _linear(method):
    return lambda q, k, v, g=None: linear_attention(q, k, v, log_decay=g, method=method)[0]


def _delta(method):
    return lambda q, k, v, beta, g=None: delta_rule(q, k, v, beta, log_decay=g, method=method)[0]


def _dplr(method):
    return lambda q, k, v, a, b, g: dplr(q, k, v, a, b, log_decay=g, method=method)[0]


def _softmax(method):
    return lambda q, k, v: softmax_attention(q, k, v, method=method)


def _contender(name, op, *arrays):
    """Value and gradients of every array, compiled, with the bytes of its temporaries."""
    out = jax.eval_shape(op, *arrays)
    (cotangent,) = _normal(out.shape, 1)

    @jax.jit
    def both(cotangent, *arrays):
        value, pullback = jax.vjp(op, *arrays)
        return value, pullback(cotangent)

    compiled = both.lower(cotangent, *arrays).compile()
    memory = compiled.memory_analysis().temp_size_in_bytes
    run = functools.partial(compiled, cotangent, *arrays)
    return Contender(name, lambda: jax.block_until_ready(run()), memory)
