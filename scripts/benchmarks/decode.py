"""Decoding: tokens a second of one layer of every mixer, behind 128 tokens and behind 8,192."""

import jax
import jax.numpy as jnp
from flax import nnx

from benchmarks.comparison import Comparison, Contender, Target
from seqmodels.mixers import MIXERS

WIDTH, STEPS = 256, 32
SHORT, LONG = 128, 8192


def comparisons():
    """A table a mixer: one whose state does not grow should not slow down, a cache should be read once."""
    for name, mixer in sorted(MIXERS.items()):
        yield decoded(name, mixer(WIDTH, rngs=nnx.Rngs(0)))


def decoded(name, mixer):
    """One row that goes on behind a short and behind a long context."""
    short, long = f"behind {SHORT:,}", f"behind {LONG:,}"
    contenders = [
        Contender(title, _steps(mixer, length), work=(STEPS, "tokens"))
        for title, length in ((short, SHORT), (long, LONG))
    ]
    grows = mixer.costs(SHORT).state_elements != mixer.costs(LONG).state_elements
    if grows:
        contenders.append(Contender("its state read once", _read(mixer, LONG), work=(STEPS, "tokens")))
        target = Target(long, ("its state read once",), 0.5 if name == "SoftmaxAttention" else None, "rate")
    else:
        target = Target(long, (short,), 0.8, "rate")
    return Comparison(f"decoding, {name}, a layer of width {WIDTH}", tuple(contenders), (target,))


def _begun(mixer, length):
    """The state of a row that holds `length` tokens, with room for no more than what is timed."""
    x = jax.random.normal(jax.random.key(0), (1, length, WIDTH))
    state = mixer.init_state(1, length + STEPS)
    graphdef, params = nnx.split(mixer, nnx.Param)
    run = jax.jit(lambda params, x, state: nnx.merge(graphdef, params)(x, state=state)[1])
    return jax.block_until_ready(run(params, x, state))


def _steps(mixer, length):
    """Decodes some tokens, each from the state that the one before left, and forgets them again."""
    graphdef, params = nnx.split(mixer, nnx.Param)
    begun = _begun(mixer, length)

    @jax.jit
    def decode(params, state, tokens):
        def body(carry, x):
            y, carry = nnx.merge(graphdef, params)(x, state=carry)
            return carry, y

        return jax.lax.scan(body, state, tokens)[1]

    tokens = jax.random.normal(jax.random.key(1), (STEPS, 1, 1, WIDTH))
    return lambda: decode(params, begun, tokens).block_until_ready()


def _read(mixer, length):
    """Sums up the state as often as it is decoded from."""
    state = [leaf for leaf in jax.tree.leaves(_begun(mixer, length)) if leaf.dtype == jnp.float32]
    total = jax.jit(lambda leaves: sum(leaf.sum() for leaf in leaves))
    return lambda: [total(state).block_until_ready() for _ in range(STEPS)]
