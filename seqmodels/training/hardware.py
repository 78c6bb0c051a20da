"""What the machine is: platform, devices, and how fast its matrix products are."""

import contextlib
import os
import re
import time
from collections.abc import Iterable, Iterator

import jax
import jax.numpy as jnp

from seqmodels.accounting import host_memory
from seqmodels.errors import InputError

# Dense products a second of one device at full precision of the type, from the vendors' data sheets.
PEAK_FLOPS = {
    ("A100", "bfloat16"): 312e12,
    ("A100", "float32"): 19.5e12,
    ("H100", "bfloat16"): 989e12,
    ("H100", "float32"): 67e12,
    ("H200", "bfloat16"): 989e12,
    ("H200", "float32"): 67e12,
    ("L4", "bfloat16"): 121e12,
    ("L4", "float32"): 30.3e12,
    ("TPU v4", "bfloat16"): 275e12,
    ("TPU v5 lite", "bfloat16"): 197e12,
    ("TPU v5", "bfloat16"): 459e12,
    ("TPU v6 lite", "bfloat16"): 918e12,
}


def check_platform() -> None:
    """Raises InputError, in one line, if the platform that JAX_PLATFORMS asks for is not there."""
    try:
        jax.devices()
    except (RuntimeError, AssertionError) as error:  # JAX asserts where the platform has no plugin
        asked = os.environ.get("JAX_PLATFORMS") or jax.config.jax_platforms
        reason = f": {error}".partition("\n")[0].rstrip(": ")
        raise InputError(
            f"JAX_PLATFORMS={asked} asks for a device that this machine or this installation of JAX does not "
            f"have{reason}."
        ) from None


def describe() -> str:
    """One line: the platform, and the number and kind of its devices."""
    devices = jax.devices()
    processes = f" in {jax.process_count()} processes" if jax.process_count() > 1 else ""
    plural = "s" if len(devices) > 1 else ""
    return f"{devices[0].platform}, {len(devices)} device{plural} ({devices[0].device_kind}){processes}"


def cores() -> list[int]:
    """The cores that this process may use, by number; where the system does not say, all of them."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def pin(to: Iterable[int]) -> None:
    """Keeps this process on some cores, where the system can; before the first use of a device.

    JAX sizes its pools of threads by the cores that the process may use, when it makes the device: on one
    core there is one thread, and no work is parted that would only wait for its parts.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, to)


def set_precision(dtype: str) -> None:
    """Makes float32 mean float32: GPUs and TPUs round the inputs of products otherwise."""
    if dtype == "float32":
        jax.config.update("jax_default_matmul_precision", "highest")


@contextlib.contextmanager
def memory_errors(*, batch_size: int, row_length: int, accumulation: int) -> Iterator[None]:
    """Turns a failed allocation into an InputError that says what to lower."""
    try:
        yield
    except (jax.errors.JaxRuntimeError, MemoryError) as error:
        if isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" not in str(error):
            raise
        reason = str(error).partition("\n")[0] or "the host's is full"
        raise InputError(
            f"an update or an evaluation does not fit into memory ({reason}): lower train.batch_size = "
            f"{batch_size} or train.row_length = {row_length}, raise train.accumulation = {accumulation}, or "
            "set LanguageModel.remat = True."
        ) from None


def check_memory(compiled: jax.stages.Compiled) -> None:
    """Raises MemoryError if a compiled function takes more than there is.

    For CPUs, whose system would kill the process without a word; other devices refuse the allocation.
    """
    needs = compiled.memory_analysis()
    if needs is None or jax.default_backend() != "cpu":
        return
    fresh = needs.output_size_in_bytes - needs.alias_size_in_bytes
    each = needs.argument_size_in_bytes + needs.temp_size_in_bytes + fresh
    total, memory = each * jax.local_device_count(), host_memory()
    if total > memory:
        raise MemoryError(f"{total / 2**30:,.0f} GiB of the machine's {memory / 2**30:,.0f} GiB")


def data_sheet(kind: str, dtype: str) -> tuple[float, str] | None:
    """The figure of PEAK_FLOPS for a kind of device, and its name there; None where it has none."""
    for (name, of_dtype), peak in sorted(PEAK_FLOPS.items(), key=lambda item: -len(item[0][0])):
        if of_dtype == dtype and re.search(rf"\b{name}\b", kind):
            return peak, name
    return None


def product_ceiling(dtype: str, *, size: int = 1024, repetitions: int = 8) -> tuple[float, str]:
    """The multiply-adds, counted as 2, that all devices can do a second, and where the figure is from.

    Known accelerators: the vendor's figure. Others: measured, as the fastest of a few square products; the
    devices of a CPU share its cores, so that one of them measures all.
    """
    known = data_sheet(jax.devices()[0].device_kind, dtype)
    if known is not None:
        return known[0] * jax.device_count(), f"{known[1]} data sheet"
    matrix = jnp.ones((size, size), dtype)
    product = jax.jit(jnp.matmul)
    jax.block_until_ready(product(matrix, matrix))
    fastest = float("inf")
    for _ in range(repetitions):
        start = time.perf_counter()
        jax.block_until_ready(product(matrix, matrix))
        fastest = min(fastest, time.perf_counter() - start)
    devices = 1 if jax.default_backend() == "cpu" else jax.device_count()
    return devices * 2 * size**3 / fastest, f"measured on products of {size}"
