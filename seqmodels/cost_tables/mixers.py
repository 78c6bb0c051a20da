"""Every registered mixer side by side: FLOPs a token, bytes of state, and where it beats attention."""

import jax
import jax.numpy as jnp
from flax import nnx

from seqmodels.accounting import tree_bytes
from seqmodels.cost_tables.table import Table, compact
from seqmodels.mixers import MIXERS

LENGTHS = (256, 1024, 4096, 16_384, 65_536)


def tables(width: int = 256) -> list[Table]:
    """Every registered mixer at its defaults: FLOPs a token, bytes of state, and where it beats attention."""
    built = {
        name: nnx.eval_shape(lambda m=m: m(width, rngs=nnx.Rngs(0))) for name, m in sorted(MIXERS.items())
    }
    header = ("mixer", *(f"N = {length:,}" for length in LENGTHS))
    flops = Table(
        f"Mixers at width {width}: FLOPs a token",
        (*header, "beats attention from"),
        note="forward, one layer without its feed-forward; a mixer marked * stands for that too",
    )
    states = Table(
        f"Mixers at width {width}: bytes of state a row, in float32",
        (*header, "grows"),
        note="a state that grows is a cache of the document: keys and values, or a convolution's inputs",
    )
    for name, mixer in built.items():
        costs = [mixer.costs(length) for length in LENGTHS]
        flops.rows.append(
            (
                name if mixer.feed_forward else f"{name} *",
                *(compact(c.flops_per_token) for c in costs),
                _crossover(mixer, built),
            )
        )
        grows = costs[0].state_elements != costs[-1].state_elements
        cells = (compact(4 * c.state_elements) for c in costs)
        states.rows.append((name, *cells, "with N" if grows else "no"))
        for length, cost in zip(LENGTHS, costs, strict=True):
            held = jax.eval_shape(lambda mixer=mixer, length=length: mixer.init_state(1, length))
            floats = [leaf for leaf in jax.tree.leaves(held) if jnp.issubdtype(leaf.dtype, jnp.floating)]
            states.checks.append(
                (f"state of {name} at {length:,}", tree_bytes(floats) == 4 * cost.state_elements)
            )
    return [flops, states]


def _crossover(mixer, built) -> str:
    """The length from which a mixer takes fewer FLOPs a token than softmax attention."""
    attention = built["SoftmaxAttention"]
    if type(mixer) is type(attention):
        return "-"

    def cheaper(length):
        return mixer.costs(length).flops_per_token < attention.costs(length).flops_per_token

    if not cheaper(LENGTHS[-1]):
        return "never"
    low, high = 0, LENGTHS[-1]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if cheaper(middle) else (middle, high)
    return f"N = {high:,}"
