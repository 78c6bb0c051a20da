"""What a recurrence saves against attention, that both are one function, and how long a decay remembers."""

import math

import jax
import jax.numpy as jnp
import numpy as np

from seqmodels.accounting import counted_flops
from seqmodels.cost_tables.table import Table, close, compact, shape
from seqmodels.ops import LinearAttentionState, linear_attention, linear_recurrence


def costs() -> Table:
    """2N²D against 2N·D² multiply-adds: scores and values, or writing and reading a D x D state."""
    size = 64
    table = Table(
        f"Attention against recurrence: one head of D = {size}, N tokens",
        ("N", "attention", "recurrence", "ratio", "attention", "by count", "recurrence", "by count"),
        note="multiply-adds on the left, FLOPs (two each) on the right; they cross at N = D",
    )

    def attend(q, k, v):
        return jnp.einsum("ts,sv->tv", jnp.einsum("tk,sk->ts", q, k), v)

    def step(state, q, k, v):
        state = state + k[:, None] * v[None, :]
        return state, jnp.einsum("k,kv->v", q, state)

    for length in (256, 1024, 4096):
        attention, recurrence = 2 * length**2 * size, 2 * length * size**2
        count = counted_flops(attend, *[shape(length, size)] * 3)
        steps = length * counted_flops(step, shape(size, size), *[shape(size)] * 3)
        ratio = attention // recurrence
        macs, flops = (attention, recurrence, ratio), (2 * attention, count, 2 * recurrence, steps)
        table.rows.append((f"{length:,}", *map(compact, macs), *map(compact, flops)))
        table.checks += [
            (f"attention at N = {length} by count", close(count, 2 * attention)),
            (f"recurrence at N = {length} by count", close(steps, 2 * recurrence)),
            (f"ratio N / D at N = {length}", ratio * size == length),
        ]
    return table


def equality() -> Table:
    """The two forms of normalised linear attention on the same numbers, and the worked example."""
    length, size = 256, 64
    table = Table(
        "Linear attention: the quadratic form is the recurrence",
        ("case", "quadratic", "recurrent", "largest difference"),
        note="features elu(x) + 1, float32; rounding alone may differ",
    )
    keys = jax.random.split(jax.random.key(0), 3)
    q, k, v = (jax.random.normal(key, (1, length, 1, size)) for key in keys)
    q, k = jax.nn.elu(q) + 1, jax.nn.elu(k) + 1
    forms = [linear_attention(q, k, v, normalize=True, method=m)[0] for m in ("parallel", "sequential")]
    error = float(jnp.abs(forms[0] - forms[1]).max())
    last = [f"{float(form[0, -1, 0, 0]):+.6f}" for form in forms]
    table.rows.append((f"N = {length}, D = {size}, random", *last, f"{error:.1e}"))
    table.checks.append(("the forms agree to float32 rounding", error < 1e-5))

    k = jnp.asarray([[1, 0], [0, 1], [1, 0]], jnp.float32)[None, :, None]
    v = jnp.asarray([[2, 0], [0, 3], [1, 1]], jnp.float32)[None, :, None]
    states = [
        linear_attention(k[:, :n], k[:, :n], v[:, :n], normalize=True, method="sequential")[1]
        for n in (1, 2, 3)
    ]
    wanted = [[[2, 0], [0, 0]], [[2, 0], [0, 3]], [[3, 1], [0, 3]]]
    held = [state.kv[0, 0].tolist() for state in states]
    table.checks.append(("the worked example's three states", held == wanted))
    for query, normalised in (((1, 0), (1.5, 0.5)), ((0, 1), (0.0, 3.0))):
        q = jnp.broadcast_to(jnp.asarray(query, jnp.float32), (1, 3, 1, 2))
        reads = [
            tuple(linear_attention(q, k, v, normalize=True, method=m)[0][0, -1, 0].tolist())
            for m in ("parallel", "sequential")
        ]
        gap = max(abs(a - b) for a, b in zip(*reads, strict=True))
        table.rows.append((f"worked example, query {query}", *(str(read) for read in reads), f"{gap:.0e}"))
        table.checks.append((f"query {query} reads {normalised}", reads[1] == normalised))
    one = LinearAttentionState(states[2].kv)
    nothing = jnp.zeros((1, 1, 1, 2))
    q = jnp.ones((1, 1, 1, 2))
    both, _ = linear_attention(q, nothing, nothing, scale=1.0, initial_state=one)
    table.checks.append(("query (1, 1) reads (3, 4) before normalising", both[0, 0, 0].tolist() == [3, 4]))
    return table


def memory() -> Table:
    """Half-life ln ½ / ln a and effective memory 1 / (1 − a), and both from the response to an impulse."""
    table = Table(
        "Memory of h_t = a h_{t-1} + x_t",
        ("a", "half-life", "whole steps", "measured", "effective memory", "measured"),
        note="measured: the first step at which an impulse is at most halved, and its sum over 4,096 steps",
    )
    published = {0.5: (1, 2), 0.8: (4, 5), 0.95: (14, 20), 0.99: (69, 100)}
    for decay, (whole, memory) in published.items():
        half_life = math.log(0.5) / math.log(decay)
        impulse = jnp.zeros((1, 4096, 1)).at[0, 0, 0].set(1.0)
        response = np.asarray(
            linear_recurrence(jnp.full_like(impulse, decay), impulse)[0][0, :, 0], np.float64
        )
        halved, total = int(np.argmax(response <= 0.5)), response.sum()
        row = (
            f"{half_life:.2f}",
            str(math.ceil(half_life)),
            str(halved),
            f"{1 / (1 - decay):.0f}",
            f"{total:.2f}",
        )
        table.rows.append((str(decay), *row))
        table.checks.append(
            (f"half-life of {decay} is {whole} steps", math.ceil(half_life) == halved == whole)
        )
        table.checks.append((f"effective memory of {decay} is {memory}", close(total, memory, 1e-3)))
    return table
