"""Parameters, FLOPs and state bytes of a model, by formula."""

import jax

from seqmodels.mixers.base import Costs


def parameters_by_part(params) -> dict[str, int]:
    """The number of parameters of each top-level part of the model."""
    return {part: sum(leaf.size for leaf in jax.tree.leaves(tree)) for part, tree in params.items()}


def model_costs(model, length: int) -> Costs:
    """Forward FLOPs per token, head included, and floating-point numbers in the state of one row."""
    layers = [model.layers.blocks[i % len(model.layers.blocks)].costs(length) for i in range(model.layers.depth)]
    head = 2.0 * model.width * model.vocab_size
    return Costs(head + sum(c.flops_per_token for c in layers), sum(c.state_elements for c in layers))


def state_bytes(model, length: int) -> int:
    """Bytes of the state of one row."""
    state = jax.eval_shape(lambda: model.init_state(1, length))
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))
