"""Where arrays live: parameters on every device, rows of the batch spread over all of them."""

from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

ROWS = "rows"


def make_mesh() -> Mesh:
    """All devices of all processes in one axis, over which the rows of a batch are spread."""
    return jax.make_mesh((jax.device_count(),), (ROWS,), axis_types=(AxisType.Auto,))


def replicated(mesh: Mesh) -> NamedSharding:
    """A whole copy on every device."""
    return NamedSharding(mesh, PartitionSpec())


def by_rows(mesh: Mesh) -> NamedSharding:
    """Micro-batches `[accumulation, rows, ...]` with the rows spread over the devices."""
    return NamedSharding(mesh, PartitionSpec(None, ROWS))


def copy_everywhere(tree: Any, mesh: Mesh) -> Any:
    """Whole copies of host arrays on every device. All processes have the same ones, and none waits."""

    def put(leaf: Any) -> jax.Array:
        return jax.make_array_from_process_local_data(replicated(mesh), np.asarray(leaf))

    return jax.tree.map(put, tree)
