"""Where arrays live: parameters on every device, rows of the batch spread over all of them."""

import os

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

ROWS = "rows"


def join_processes() -> None:
    """Joins the processes of a run that JAX_COORDINATOR_ADDRESS names, before any device is used.

    JAX_NUM_PROCESSES and JAX_PROCESS_ID count them; without these the cluster's own variables do.
    """
    if "JAX_COORDINATOR_ADDRESS" in os.environ:
        counts = [os.environ.get(name) for name in ("JAX_NUM_PROCESSES", "JAX_PROCESS_ID")]
        number, identity = (None if count is None else int(count) for count in counts)
        jax.distributed.initialize(num_processes=number, process_id=identity)


def largest(value: int) -> int:
    """The largest value that any process passes; all processes wait for one another."""
    if jax.process_count() == 1:
        return value
    with jax.transfer_guard("allow"):
        return int(np.max(multihost_utils.process_allgather(np.int32(value))))


def make_mesh() -> Mesh:
    """All devices of all processes in one axis, over which the rows of a batch are spread."""
    return jax.make_mesh((jax.device_count(),), (ROWS,), axis_types=(AxisType.Auto,))


def replicated(mesh: Mesh) -> NamedSharding:
    """A whole copy on every device."""
    return NamedSharding(mesh, PartitionSpec())


def by_rows(mesh: Mesh) -> NamedSharding:
    """Micro-batches `[accumulation, rows, ...]` with the rows spread over the devices."""
    return NamedSharding(mesh, PartitionSpec(None, ROWS))
