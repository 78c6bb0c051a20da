"""Compiling the step ahead of the first batch, through a cache on disk."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from seqmodels.data.text import cache_folder

# Small programs too: a restart of a small run is all compilation.
LEAST_SECONDS = 0.1

# Kernels without atomic sums, and the same ones in every process: tuning picks by the clock.
GPU_DETERMINISM = {"xla_gpu_deterministic_ops": True, "xla_gpu_autotune_level": 0}

_hits: list[str] = []


def use_cache(least_seconds: float = LEAST_SECONDS) -> None:
    """Keeps compiled programs on disk, in JAX_COMPILATION_CACHE_DIR or beside the token cache.

    least_seconds: that a program took to compile.
    """
    if jax.config.jax_compilation_cache_dir is None:
        jax.config.update("jax_compilation_cache_dir", str(cache_folder(None) / "xla"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", least_seconds)


class Compiled(NamedTuple):
    """A compiled function, and how it came about.

    Attributes:
        function: takes arguments of the very shapes, types and places that it was compiled for.
        seconds: that lowering and compiling took.
        cached: whether the program came from the cache.
    """

    function: jax.stages.Compiled
    seconds: float
    cached: bool


def compile_step(step: Callable, *arguments: Any, deterministic: bool) -> Compiled:
    """Compiles `step(*arguments)` and donates the first argument.

    Args:
        step: the function.
        arguments: arrays or ShapeDtypeStructs with shardings.
        deterministic: on a GPU, only kernels that give the same bits each time (slower); elsewhere all do.
    """
    options = GPU_DETERMINISM if deterministic and jax.default_backend() == "gpu" else None
    start, hits = time.perf_counter(), _count_hits()
    compiled = jax.jit(step, donate_argnums=0).lower(*arguments).compile(options)
    return Compiled(compiled, time.perf_counter() - start, _count_hits() > hits)


def _count_hits() -> int:
    """How often the cache has had the program asked for; counts from the first call on."""
    if not _hits:
        _hits.append("counting")
        jax.monitoring.register_event_listener(
            lambda event, **_: _hits.append(event) if event == "/jax/compilation_cache/cache_hits" else None
        )
    return len(_hits)
