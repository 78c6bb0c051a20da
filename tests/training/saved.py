"""For tests of checkpoints: states whose content tells their step, saved and restored, and full disks."""

import contextlib
import errno
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqmodels.training.checkpoints import Checkpoints, Restored
from seqmodels.training.run_directory import RunDirectory
from seqmodels.training.step import TrainState


def empty_run(folder: Path) -> RunDirectory:
    """A run directory with nothing in it."""
    (folder / "config.gin").write_text("")
    return RunDirectory(folder)


def state_at(step: int) -> TrainState:
    """A state whose content tells the step; lists of layers have integer keys, as in a model."""
    random = np.random.default_rng(step)
    params = {
        "layers": {0: jnp.asarray(random.normal(size=(40, 30)), jnp.float32), 1: jnp.ones((3,), jnp.bfloat16)}
    }
    moments = (jax.tree.map(jnp.zeros_like, params), jnp.full((), step, jnp.int32))
    return TrainState(params, moments, jnp.full((), step, jnp.int32), jnp.array([1, step], jnp.int32))


def abstract(state: TrainState | None = None, sharding: jax.sharding.Sharding | None = None) -> TrainState:
    """Shapes and dtypes of a state, on one device unless said otherwise."""
    sharding = sharding or jax.sharding.SingleDeviceSharding(jax.devices()[0])
    return jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding), state or state_at(0)
    )


def save(run: RunDirectory, *numbers: int) -> None:
    """Saves `state_at` of each number."""
    checkpoints = Checkpoints(run)
    for step in numbers:
        checkpoints.save(step, state_at(step), {"row": step})
    checkpoints.close()


def restore(run: RunDirectory, wanted: TrainState | None = None) -> tuple[Restored | None, list[str]]:
    """What a run would go on from, and what is said."""
    said: list[str] = []
    checkpoints = Checkpoints(run)
    try:
        return checkpoints.restore(wanted or abstract(), said.append), said
    finally:
        checkpoints.close()


def same_bits(first, second) -> None:
    """Asserts that two trees are equal in structure, forms, weak types and bits."""
    assert jax.tree.structure(first) == jax.tree.structure(second)
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert getattr(a, "weak_type", False) == getattr(b, "weak_type", False)
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def files(run: RunDirectory, step: int) -> list[Path]:
    """Those of a checkpoint, the smallest first."""
    found = [path for path in (run.checkpoints / str(step)).rglob("*") if path.is_file()]
    return sorted(found, key=lambda path: (path.stat().st_size, path))


def content(run: RunDirectory, step: int) -> dict[str, bytes]:
    """The bytes of every file of a checkpoint, by name."""
    folder = run.checkpoints / str(step)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files(run, step)}


@contextlib.contextmanager
def no_file_longer_than(size: int) -> Iterator[None]:
    """As on a disk that is full: a file that would grow beyond `size` bytes is not written."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


@contextlib.contextmanager
def closed(folder: Path) -> Iterator[None]:
    """As for a user without rights on a folder, which tests that run as root cannot be."""

    def refusing(name, call):
        def called(path, *arguments, **options):
            at = Path(path) if isinstance(path, Path | str) else None
            if at is not None and folder == (at if name == "listdir" else at.parent):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))
            return call(path, *arguments, **options)

        return called

    with pytest.MonkeyPatch.context() as patch:
        for name in ("listdir", "stat"):
            patch.setattr(os, name, refusing(name, getattr(os, name)))
        yield
