"""A LanguageModel as a scorer."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec

from seqmodels import accounting
from seqmodels.loss import token_nll


@partial(jax.jit, static_argnums=(0, 1))
def _nll(graphdef, everywhere, params, tokens, segment_ids, targets):
    model = nnx.merge(graphdef, params)
    features, _ = model.features(tokens, segment_ids=segment_ids)
    return _gathered(token_nll(model, features, targets), everywhere)


@partial(jax.jit, static_argnums=(0, 1))
def _nll_from_state(graphdef, everywhere, params, tokens, segment_ids, targets, state):
    model = nnx.merge(graphdef, params)
    features, state = model.features(tokens, segment_ids=segment_ids, state=state)
    return _gathered(token_nll(model, features, targets), everywhere), state


@partial(jax.jit, static_argnums=(0, 1))
def _logits(graphdef, everywhere, params, tokens, segment_ids, positions):
    model = nnx.merge(graphdef, params)
    features, _ = model.features(tokens, segment_ids=segment_ids)
    chosen = jnp.take_along_axis(features, positions[:, :, None], axis=1)
    return _gathered(model.head(chosen), everywhere)


@partial(jax.jit, static_argnums=(0, 1))
def _state_after(graphdef, everywhere, params, tokens, segment_ids, state):
    del everywhere  # the rows of a state stay on their devices
    return nnx.merge(graphdef, params).features(tokens, segment_ids=segment_ids, state=state)[1]


@partial(jax.jit, static_argnums=(0, 1))
def _logits_from_state(graphdef, everywhere, params, tokens, segment_ids, positions, state):
    model = nnx.merge(graphdef, params)
    features, _ = model.features(tokens, segment_ids=segment_ids, state=state)
    chosen = jnp.take_along_axis(features, positions[:, :, None], axis=1)
    return _gathered(model.head(chosen), everywhere)


def _gathered(rows, everywhere: NamedSharding | None):
    """The rows of all devices on each of them: a process can fetch no others than its own devices'."""
    return rows if everywhere is None else jax.lax.with_sharding_constraint(rows, everywhere)


class ModelScorer:
    """A LanguageModel as a scorer: graphdef and params as `language_model.build` gives them.

    Compiled once a shape in a process, whichever params are scored. Over several devices (params that lie on
    a mesh) the rows of a batch are split where they divide evenly.
    """

    def __init__(self, graphdef, params):
        self._graphdef, self._params = graphdef, params
        model = nnx.merge(graphdef, params)
        self.vocab_size, self.dtype, self.max_positions = model.vocab_size, model.dtype, model.max_positions
        self._sharding = jax.tree.leaves(params)[0].sharding
        on_mesh = isinstance(self._sharding, NamedSharding)
        self._everywhere = NamedSharding(self._sharding.mesh, PartitionSpec()) if on_mesh else None

    @property
    def model(self):
        """The LanguageModel itself."""
        return nnx.merge(self._graphdef, self._params)

    def nll(self, tokens, segment_ids, targets):
        return self._run(_nll, (tokens, segment_ids, targets))

    def logits(self, tokens, segment_ids, positions):
        return self._run(_logits, (tokens, segment_ids, positions))

    def state_elements(self, length: int) -> int:
        """Numbers in the state of a row of `length` tokens."""
        return accounting.model_costs(nnx.merge(self._graphdef, self._params), length).state_elements

    def init_state(self, batch_size: int, max_length: int):
        """The empty state, to go on from: documents up to max_length tokens fit into its caches."""
        return nnx.merge(self._graphdef, self._params).init_state(batch_size, max_length)

    def nll_from_state(self, tokens, segment_ids, targets, state):
        """(nll [B, T], state): as `nll`, continuing from the state that the call before returned."""
        return self._run(_nll_from_state, (tokens, segment_ids, targets), state)

    def state_after(self, tokens, segment_ids, state=None):
        """The state after the tokens [B, T], of each row's last document.

        state: what the rows go on from, with room for them. None: the empty state of T tokens, which is full
        then where it holds a cache: to go on, begin with `init_state`.
        """
        return self._run(_state_after, (tokens, segment_ids), state)

    def logits_from_state(self, tokens, segment_ids, positions, state):
        """As `logits`, in rows that go on from a state, which stays as it is."""
        return self._run(_logits_from_state, (tokens, segment_ids, positions), state)

    def _run(self, function, host, *state):
        sharding = self._sharding
        if self._everywhere is not None:
            axis = sharding.mesh.axis_names[0]
            even = host[0].shape[0] % sharding.mesh.shape[axis] == 0
            sharding = NamedSharding(sharding.mesh, PartitionSpec(axis)) if even else self._everywhere
        # The state too, wherever it comes from: another layout would be another compilation.
        placed = jax.device_put([*(np.asarray(array, np.int32) for array in host), *state], sharding)
        return function(self._graphdef, self._everywhere, self._params, *placed)
