"""One update of the parameters, as one compiled function."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from seqmodels.loss import token_nll
from seqmodels.training.norms import norms_by_kind
from seqmodels.training.optimizers import Update

TOKENS_PER_UNIT = 2**20


class TrainState(NamedTuple):
    """All that an update changes; a plain pytree.

    Attributes:
        params: the parameters, float32, as a pure dict.
        opt_state: the optimizer's state.
        step: int32, the number of updates made.
        tokens: int32 [2], the tokens seen without padding, in units of 2**20 and a rest; int32 is too few.
    """

    params: Any
    opt_state: Any
    step: jax.Array
    tokens: jax.Array


class Dials(NamedTuple):
    """What runs that share one compiled step can differ in.

    Attributes:
        key: uint32, the words of the root of dropout's keys: a key itself cannot be put on other processes'
            devices.
        learning_rate: float32, the peak of the schedule.
    """

    key: jax.Array
    learning_rate: jax.Array


class Metrics(NamedTuple):
    """What an update reports, as arrays on the device.

    Attributes:
        loss: mean negative log-likelihood of the batch's targets before the update, in nats.
        learning_rate: of this update.
        gradient_norm: of the whole gradient, before clipping.
        tokens: as in TrainState, after the update.
        skipped: int32, the updates that were skipped up to this one.
        gradient_norms, parameter_norms, update_norms: by kind of layer; of an update that is skipped, the
            gradient and the update are those refused.
    """

    loss: jax.Array
    learning_rate: jax.Array
    gradient_norm: jax.Array
    tokens: jax.Array
    skipped: jax.Array
    gradient_norms: dict[str, jax.Array]
    parameter_norms: dict[str, jax.Array]
    update_norms: dict[str, jax.Array]


def make_dials(seed: int, learning_rate: float) -> Dials:
    """Those of a run."""
    return Dials(jax.random.key_data(jax.random.key(seed)), jnp.asarray(learning_rate, jnp.float32))


def initial_state(params: Any, update: Update) -> TrainState:
    """The state before the first update."""
    zero = jnp.zeros((), jnp.int32)
    return TrainState(params, update.init(params), zero, jnp.zeros((2,), jnp.int32))


def count_tokens(tokens: Any) -> int:
    """The token count of a state or of metrics as one integer."""
    return int(tokens[0]) * TOKENS_PER_UNIT + int(tokens[1])


def make_step(
    graphdef: nnx.GraphDef,
    kinds: Any,
    update_at: Callable[[jax.Array], Update],
    *,
    skip_nonfinite: bool = False,
) -> Callable[[TrainState, dict[str, jax.Array], Dials], tuple[TrainState, Metrics]]:
    """The function `(state, batch, dials) -> (state, metrics)` to compile, with the state donated.

    The batch holds micro-batches `[accumulation, B, ...]`. The loss is the sum of all token losses over the
    sum of all weights, so that it does not depend on how rows are parted into micro-batches and devices. The
    dropout key of a micro-batch is a function of seed, step and its index: nothing random needs to be stored.
    Seed and learning rate are arguments, so that runs that differ in nothing else share a program.

    A skipped update leaves parameters and optimizer as they were, its count and with it the schedule
    included; step, data and dropout go on. How many were skipped is therefore the step less that count.

    Args:
        graphdef: of the model.
        kinds: a tree like the parameters that names the kind of layer of each.
        update_at: the optimizer, for a peak of the learning rate.
        skip_nonfinite: skip an update whose loss or gradient, over all micro-batches, is not finite.
    """

    def loss_of(params: Any, batch: dict[str, jax.Array], total: jax.Array, key: jax.Array) -> jax.Array:
        """This micro-batch's share of the loss: its token losses over the weights of the whole batch."""
        model = nnx.merge(graphdef, params)
        features, _ = model.features(
            batch["tokens"], segment_ids=batch["segment_ids"], rngs=nnx.Rngs(dropout=key)
        )
        targets, weights = batch["targets"], batch["loss_weights"]
        if "scored" in batch:  # only these positions have a weight: the head need not see the others
            features = jnp.take_along_axis(features, batch["scored"][:, :, None], axis=1)
            targets, weights = (jnp.take_along_axis(x, batch["scored"], axis=1) for x in (targets, weights))
        return jnp.sum(token_nll(model, features, targets) * weights) / total

    def gradient(params: Any, batches: dict[str, jax.Array], key: jax.Array) -> tuple[jax.Array, Any]:
        """Loss and gradient of the whole batch, one micro-batch in memory at a time."""
        total = jnp.sum(batches["loss_weights"])
        total = jnp.where(total > 0, total, 1.0)
        value_and_grad = jax.value_and_grad(loss_of)
        count = batches["tokens"].shape[0]
        if count == 1:
            only = {name: rows[0] for name, rows in batches.items()}
            return value_and_grad(params, only, total, jax.random.fold_in(key, 0))

        def add(sums: tuple[jax.Array, Any], item: tuple) -> tuple[tuple[jax.Array, Any], None]:
            index, batch = item
            share = value_and_grad(params, batch, total, jax.random.fold_in(key, index))
            return jax.tree.map(jnp.add, sums, share), None

        zeros = (jnp.zeros((), jnp.float32), jax.tree.map(jnp.zeros_like, params))
        sums, _ = jax.lax.scan(add, zeros, (jnp.arange(count, dtype=jnp.int32), batches))
        return sums

    def step(state: TrainState, batches: dict[str, jax.Array], dials: Dials) -> tuple[TrainState, Metrics]:
        update = update_at(dials.learning_rate)
        key = jax.random.fold_in(jax.random.wrap_key_data(dials.key), state.step)
        loss, gradients = gradient(state.params, batches, key)
        gradient_norm = optax.tree.norm(gradients)
        updates, opt_state = update(gradients, state.opt_state, state.params)
        params = optax.apply_updates(state.params, updates)
        if skip_nonfinite:
            made = functools.partial(jnp.where, jnp.isfinite(loss) & jnp.isfinite(gradient_norm))
            before = state.params, state.opt_state
            params, opt_state = jax.tree.map(made, (params, opt_state), before)
        tokens = _add_tokens(state.tokens, jnp.sum(batches["segment_ids"] > 0, dtype=jnp.int32))
        metrics = Metrics(
            loss=loss,
            learning_rate=update.schedule(update.count(state.opt_state)),
            gradient_norm=gradient_norm,
            tokens=tokens,
            skipped=state.step + 1 - update.count(opt_state),
            gradient_norms=norms_by_kind(gradients, kinds),
            parameter_norms=norms_by_kind(params, kinds),
            update_norms=norms_by_kind(updates, kinds),
        )
        return TrainState(params, opt_state, state.step + 1, tokens), metrics

    return step


def _add_tokens(tokens: jax.Array, more: jax.Array) -> jax.Array:
    rest = tokens[1] + more
    return jnp.stack([tokens[0] + rest // TOKENS_PER_UNIT, rest % TOKENS_PER_UNIT])
