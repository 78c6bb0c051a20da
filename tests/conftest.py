"""Strict by default: any warning, implicit promotion or rank promotion in our code is an error."""

import os

import jax
import pytest

jax.config.update("jax_num_cpu_devices", 8)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_compilation_cache_dir", os.path.join(os.path.dirname(__file__), "..", ".cache", "xla"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def pytest_collection_modifyitems(items):
    """Files of few and long tests first: a worker that takes one last keeps the others waiting."""
    items.sort(key=lambda item: item.path.parent.name not in ("tests", "training", "sweep"))


@pytest.fixture(scope="session")
def refs():
    """The folder of reference vectors, from the environment variable SEQMODELS_REFS."""
    folder = os.environ.get("SEQMODELS_REFS")
    if not folder:
        pytest.skip("SEQMODELS_REFS is unset: the reference vectors are not here")
    return os.path.abspath(folder)


@pytest.fixture(scope="module", autouse=True)
def compiled_programs_go_with_their_module():
    """Each takes some twenty memory maps, and beyond 65,530 of them a process dies inside the compiler."""
    yield
    jax.clear_caches()
