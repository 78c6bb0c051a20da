"""A LanguageModel as a scorer."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import NamedSharding, PartitionSpec

from seqmodels.loss import token_nll


@partial(jax.jit, static_argnums=0)
def _nll(graphdef, params, tokens, segment_ids, targets):
    model = nnx.merge(graphdef, params)
    features, _ = model.features(tokens, segment_ids=segment_ids)
    return token_nll(model, features, targets)


@partial(jax.jit, static_argnums=0)
def _nll_from_state(graphdef, params, tokens, segment_ids, targets, state):
    model = nnx.merge(graphdef, params)
    features, state = model.features(tokens, segment_ids=segment_ids, state=state)
    return token_nll(model, features, targets), state


@partial(jax.jit, static_argnums=0)
def _logits(graphdef, params, tokens, segment_ids, positions):
    model = nnx.merge(graphdef, params)
    features, _ = model.features(tokens, segment_ids=segment_ids)
    return model.head(jnp.take_along_axis(features, positions[:, :, None], axis=1))


class ModelScorer:
    """A LanguageModel as a scorer: graphdef and params as `language_model.build` gives them.

    Compiled once a shape in a process, whichever params are scored. Over several devices (params that lie on
    a mesh) the rows of a batch are split where they divide evenly.
    """

    def __init__(self, graphdef, params):
        self._graphdef, self._params = graphdef, params
        model = nnx.merge(graphdef, params)
        self.vocab_size, self.dtype, self.max_positions = model.vocab_size, model.dtype, model.max_positions

    def nll(self, tokens, segment_ids, targets):
        return _nll(self._graphdef, self._params, *self._place(tokens, segment_ids, targets))

    def logits(self, tokens, segment_ids, positions):
        return _logits(self._graphdef, self._params, *self._place(tokens, segment_ids, positions))

    def init_state(self, batch_size: int, max_length: int):
        """The empty state for `nll_from_state`: documents up to max_length tokens fit into its caches."""
        return nnx.merge(self._graphdef, self._params).init_state(batch_size, max_length)

    def nll_from_state(self, tokens, segment_ids, targets, state):
        """(nll [B, T], state): as `nll`, continuing from the state that the call before returned."""
        placed = self._place(tokens, segment_ids, targets)
        return _nll_from_state(self._graphdef, self._params, *placed, state)

    def _place(self, *arrays):
        sharding = jax.tree.leaves(self._params)[0].sharding
        if isinstance(sharding, NamedSharding):
            axis = sharding.mesh.axis_names[0]
            divides = arrays[0].shape[0] % sharding.mesh.shape[axis] == 0
            sharding = NamedSharding(sharding.mesh, PartitionSpec(axis if divides else None))
        return jax.device_put([np.asarray(array, np.int32) for array in arrays], sharding)
