"""Batches on their way from the host to the devices."""

import jax
import numpy as np
from jax.sharding import NamedSharding

from seqmodels.accounting import host_memory
from seqmodels.errors import InputError

BYTES_PER_TOKEN = 16  # tokens, targets, segment ids and weights, 4 each


def check_rows(batch_size: int, accumulation: int, devices: int) -> None:
    """Raises InputError unless every device gets the same number of rows in every micro-batch."""
    for name, value in (("batch_size", batch_size), ("accumulation", accumulation)):
        if value < 1:
            raise InputError(f"train.{name} = {value} should be at least 1.")
    if batch_size % accumulation:
        raise InputError(
            f"train.batch_size = {batch_size} is no multiple of train.accumulation = {accumulation}, the "
            "number of micro-batches that it is parted into."
        )
    if batch_size // accumulation % devices:
        each = accumulation * devices
        fitting = [size for size in (batch_size // each * each, -(-batch_size // each) * each) if size]
        raise InputError(
            f"train.batch_size = {batch_size} with train.accumulation = {accumulation} does not spread "
            f"evenly over {devices} devices; {' or '.join(map(str, fitting))} does."
        )


def check_size(batch_size: int, row_length: int, processes: int) -> None:
    """Raises InputError where this process's rows of one batch exceed the machine's memory."""
    each = BYTES_PER_TOKEN * batch_size * row_length // processes
    memory = host_memory()
    if each > memory:
        raise InputError(
            f"train.batch_size = {batch_size} rows of train.row_length = {row_length} tokens take "
            f"{each / 2**30:,.0f} GiB, and this machine has {memory / 2**30:,.0f} GiB: lower one of them."
        )


def check_ids(batch: dict[str, np.ndarray], vocab_size: int) -> None:
    """Raises InputError where a token id lies outside the vocabulary: compiled code could not tell."""
    for name in ("tokens", "targets"):
        low, high = int(batch[name].min()), int(batch[name].max())
        if low < 0 or high >= vocab_size:
            raise InputError(
                f"train.data: {name} hold the id {low if low < 0 else high}, outside the vocabulary of "
                f"{vocab_size} ids (0 to {vocab_size - 1}); the tokenizer does not belong to these tokens."
            )


def place(batch: dict[str, np.ndarray], accumulation: int, sharding: NamedSharding) -> dict[str, jax.Array]:
    """Puts this process's rows `[B, ...]` on the devices, as micro-batches `[accumulation, rows, ...]`."""

    def put(rows: np.ndarray) -> jax.Array:
        micro = rows.reshape(accumulation, rows.shape[0] // accumulation, *rows.shape[1:])
        return jax.make_array_from_process_local_data(sharding, micro)

    with jax.transfer_guard_host_to_device("allow"):  # of several processes JAX does not count it as explicit
        return {name: put(rows) for name, rows in batch.items()}
