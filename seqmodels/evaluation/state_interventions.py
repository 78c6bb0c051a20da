"""Interventions on states: what a model remembers is changed between what it read and what it is asked.

A state is a NamedTuple with `layers`, a tree of arrays for each, as `language_model.ModelState`. Its
integers, `last_id` and `position`, say whose memory it is and how much of it is in use.
"""

from functools import partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from seqmodels.evaluation.intervention_effects import DEPENDS, Effect, batches, effect, last_position
from seqmodels.evaluation.row_interventions import Rows, other_values
from seqmodels.evaluation.scorer import in_flight, most_likely

BITS = (8, 4, 2, 1)
_LAYER = "layer "

State = TypeVar("State", bound=tuple)


def by_state(scorer, rows: Rows, batch_size: int) -> tuple[list[Effect], list[Effect], list[Effect]]:
    """The effects of a state transplant; of emptying each layer, and last all; of each of BITS.

    A state is taken behind the pairs, changed once, and goes on with the fillers and the query. The
    transplant: rows B of the same keys and query, with other values and other fillers, go on from the state
    after the pairs of rows A.
    """
    other = other_values(rows)
    said = _said_from_states(scorer, rows, other.tokens, batch_size)
    layers = range(sum(name.startswith(_LAYER) for name in said))
    own, guess = said["own"], 1 / len(rows.value_ids)

    def transplant(name, label, answer, perfect):
        return effect(name, label, said["other"], said["transplant"], answer, perfect=perfect)

    def changed(name, label, after, perfect):
        return effect(name, label, own, after, rows.answer, perfect=(1, perfect))

    return (
        [
            transplant("transplant", "state transplant: its value", rows.answer, (0, 1)),
            transplant("transplant_old", "state transplant: the row's", other.answer, (1, 0)),
        ],
        [
            *(
                changed(f"layer_{n}_emptied", f"layer {n} emptied", said[f"{_LAYER}{n}"], DEPENDS)
                for n in layers
            ),
            changed("all_layers_emptied", "all layers emptied", said["none"], guess),
        ],
        [changed(f"{bits}_bits", f"state in {_bits(bits)}", said[_bits(bits)], 1) for bits in BITS],
    )


def _said_from_states(scorer, rows: Rows, other: np.ndarray, batch_size: int) -> dict[str, np.ndarray]:
    """Token ids [rows] after the rest of each row, by the state that it went on from.

    "own"; "layer 0", ...: without that layer; "none": without all; "8 bits", ...; "other", "transplant": the
    rest of `other`, from its own state and from that of `rows`.
    """
    length, cut = rows.tokens.shape[1], 2 * rows.pairs

    def scored():
        for chosen, count in batches(len(other), batch_size):
            ones, empty = np.ones((batch_size, length), np.int32), scorer.init_state(batch_size, length)
            ours, theirs = rows.tokens[chosen], other[chosen]
            state, foreign = (
                scorer.state_after(tokens[:, :cut], ones[:, :cut], empty) for tokens in (ours, theirs)
            )

            def go_on(tokens, state, ones=ones):
                rest = tokens[:, cut:]
                return scorer.logits_from_state(rest, ones[:, cut:], last_position(rest), state)

            yield (
                {
                    "own": go_on(ours, state),
                    "other": go_on(theirs, foreign),
                    "transplant": go_on(theirs, state),
                    "none": go_on(ours, without_all_layers(state)),
                    **{
                        f"{_LAYER}{n}": go_on(ours, without_layer(state, n)) for n in range(len(state.layers))
                    },
                    **{_bits(bits): go_on(ours, quantised(state, bits)) for bits in BITS},
                },
                count,
            )

    parts = [
        {name: most_likely(logits[:count, 0]) for name, logits in batch.items()}
        for batch, count in in_flight(scored(), len(other), batch_size)
    ]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _bits(bits: int) -> str:
    return "1 bit" if bits == 1 else f"{bits} bits"


@jax.jit
def _empty(layer: Any) -> Any:
    return jax.tree.map(jnp.zeros_like, layer)


def without_layer(state: State, layer: int) -> State:
    """The state with one layer emptied, as the layer itself is at the start of a document.

    All of it is zero then, the layer's own integers too (`mixers.base.resume`), and it goes on as if the text
    began here. For a recurrence that is a memory of zeros. A key/value cache of zeros that still counted as
    full would be something else: as many tokens whose logit is 0 and value 0, which dilute what follows. So
    it holds no token. The model's `last_id` and `position` stay.
    """
    layers = (*state.layers[:layer], _empty(state.layers[layer]), *state.layers[layer + 1 :])
    return state._replace(layers=layers)


def without_all_layers(state: State) -> State:
    """The state with every layer emptied: nothing of the text before is left."""
    return state._replace(layers=_empty(state.layers))


@partial(jax.jit, static_argnums=1)
def quantised(state: State, bits: int) -> State:
    """The state with every array of floating numbers rounded to `bits` bits, once; integers stay.

    Symmetric, with one scale a row and array: multiples of max |x| / (2^(bits - 1) - 1). With one bit the
    sign, times the mean of |x| where x is not 0 (Rastegari et al. 2016); what is 0, as the slots of a cache
    that are not in use, stays 0.
    """
    if bits < 1:
        raise ValueError(f"bits is {bits}; a number takes at least 1.")

    def rounded(array: jax.Array) -> jax.Array:
        if not jnp.issubdtype(array.dtype, jnp.floating):
            return array
        x = array.astype(jnp.float32)
        size, others = jnp.abs(x), tuple(range(1, x.ndim))
        if bits == 1:
            used = (size > 0).sum(axis=others, keepdims=True).astype(jnp.float32)
            scale = size.sum(axis=others, keepdims=True) / jnp.maximum(used, 1.0)
            return (jnp.sign(x) * scale).astype(array.dtype)
        step = size.max(axis=others, keepdims=True) / (2 ** (bits - 1) - 1)
        whole = jnp.round(x / jnp.where(step > 0, step, 1.0))
        return (whole * step).astype(array.dtype)

    return state._replace(layers=jax.tree.map(rounded, state.layers))
