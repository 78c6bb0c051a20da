"""Checkpoints: written in the background, checked by content when read, the newest and the best kept.

A checkpoint holds the parameters, the optimizer's state and the counters as arrays, and beside them the
position in the data and a checksum of each. Orbax notices a file that is missing, not a bit that is wrong:
the checksum does.
"""

import contextlib
import gc
import logging
import shutil
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from orbax.checkpoint import v1 as ocp

from seqmodels.errors import CheckpointWriteError, InputError
from seqmodels.training.best import best_step
from seqmodels.training.run_directory import RunDirectory
from seqmodels.training.step import TrainState

# The library logs, with tracebacks, what it also raises; what it raises is reported here in one sentence.
logging.getLogger("absl").setLevel(logging.CRITICAL)

KEPT = 2  # the newest, and the one to fall back to when the newest is damaged


class Restored(NamedTuple):
    """What a run goes on from: the state after `step` updates and the position in the data."""

    step: int
    state: TrainState
    data: dict[str, Any]


class _DamagedError(Exception):
    """A checkpoint cannot be read as what it was written as."""


class Checkpoints:
    """The checkpoints of a run in progress: saves, keeps what is to be kept, restores."""

    def __init__(self, run: RunDirectory):
        self._directory = run.checkpoints
        self._evaluations = run.metrics()
        self._saving: tuple[int, ocp.AsyncResponse] | None = None
        self._orbax: ocp.training.Checkpointer | None = None

    def restore(self, abstract: TrainState, say: Callable[[str], None]) -> Restored | None:
        """The newest checkpoint that is whole; None where there is none at all.

        Damaged ones are set aside, each with a sentence.

        Args:
            abstract: shapes, dtypes and shardings to restore into.
            say: takes the sentences.

        Raises:
            InputError: there are checkpoints, and all are damaged.
        """
        found = steps(self._directory)
        for step in reversed(found):
            try:
                items, about = _load(self._directory / str(step), _items(abstract))
            except _DamagedError as error:
                aside = self._directory / f"{step}.damaged"
                say(f"checkpoint {step} is damaged and skipped ({error}); it now lies in {aside}.")
                if jax.process_index() == 0:
                    shutil.rmtree(aside, ignore_errors=True)
                    (self._directory / str(step)).rename(aside)
                continue
            loop = items["loop"]
            state = TrainState(items["params"], items["opt_state"], loop["step"], loop["tokens"])
            return Restored(step, state, about["data"])
        if found:
            raise InputError(f"none of the checkpoints in {self._directory} can be restored.")
        return None

    def save(self, step: int, state: TrainState, data: dict[str, Any]) -> None:
        """Starts writing a checkpoint; waits for the one before. Safe with a state that is donated next.

        Raises:
            CheckpointWriteError: this or the previous checkpoint could not be written.
        """
        self.wait()
        items = _items(state)
        checksums = {name: checksum(tree) for name, tree in items.items()}
        with _write_errors(step):
            response = self._open().save_checkpointables_async(
                step, items, custom_metadata={"crc32": checksums, "data": data}
            )
            if response is None:
                raise CheckpointWriteError(f"checkpoint {step} was refused by the checkpoint library.")
            self._saving = step, response

    def evaluated(self, step: int, values: dict[str, float]) -> None:
        """Takes note of an evaluation, by which the best checkpoint is chosen."""
        self._evaluations.append({"step": step, **values})

    def check(self) -> None:
        """Raises CheckpointWriteError if the save in the background has failed; does not wait for it."""
        if self._saving is not None and not self._orbax.is_saving_in_progress():
            self.wait()

    def wait(self) -> None:
        """Waits for the save in the background; raises CheckpointWriteError if it failed."""
        if self._saving is not None:
            (step, response), self._saving = self._saving, None
            with _write_errors(step):
                response.result()

    def close(self) -> None:
        """Waits and frees what the library holds."""
        try:
            self.wait()
        finally:
            if self._orbax is not None:
                with contextlib.suppress(Exception):  # it raises a second time what `wait` has raised
                    self._orbax.close()

    def _open(self) -> ocp.training.Checkpointer:
        if self._orbax is None:
            self._orbax = ocp.training.Checkpointer(
                self._directory,
                # The default policy skips a save while another is being written.
                save_decision_policy=ocp.training.save_decision_policies.FixedIntervalPolicy(1),
                preservation_policy=self,
                cleanup_tmp_directories=True,
            )
        return self._orbax

    def should_preserve(self, checkpoints, *, context) -> list[bool]:
        """Which checkpoints stay: the newest ones and the best one. Called by orbax after every save."""
        present = [checkpoint.step for checkpoint in checkpoints]
        kept = {*sorted(present)[-KEPT:], best_step(self._evaluations, present)}
        return [step in kept for step in present]


def steps(directory: Path) -> list[int]:
    """The steps that have a finished checkpoint, ascending; unfinished ones have other names."""
    if not directory.is_dir():
        return []
    return sorted(int(entry.name) for entry in directory.iterdir() if entry.name.isdecimal())


def restore_params(run: RunDirectory, step: int | str, abstract: Any) -> tuple[int, Any]:
    """The parameters of one checkpoint alone, on any number of devices.

    Args:
        run: the run directory.
        step: a step, "latest" or "best" (lowest validation bits per byte, highest recall area).
        abstract: a tree of shapes and dtypes as `language_model.abstract` gives it; with shardings or
            without.

    Returns:
        (step, params).

    Raises:
        InputError: no such checkpoint, a damaged one, or one of another model.
    """
    chosen = _choose(run, step)
    one_device = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    abstract = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding or one_device),
        abstract,
    )
    directory = run.checkpoints / str(chosen)
    try:
        _check_shapes(directory, abstract)
        items, _ = _load(directory, {"params": abstract})
    except _DamagedError as error:
        raise InputError(f"{directory} is damaged: {error}.") from None
    return chosen, items["params"]


def checksum(tree: Any) -> int:
    """crc32 over names, shapes, dtypes and bytes of all leaves."""
    crc = 0
    for path, leaf in jax.tree.leaves_with_path(tree):
        array = np.ascontiguousarray(jax.device_get(leaf))
        crc = zlib.crc32(f"{jax.tree_util.keystr(path)} {array.dtype} {array.shape}".encode(), crc)
        crc = zlib.crc32(array.reshape(-1).view(np.uint8), crc)
    return crc


def _items(state: TrainState) -> dict[str, Any]:
    """The state as orbax stores it: three items, each of which can be loaded alone."""
    loop = {"step": state.step, "tokens": state.tokens}
    return {"params": state.params, "opt_state": state.opt_state, "loop": loop}


def _choose(run: RunDirectory, step: int | str) -> int:
    present = steps(run.checkpoints)
    if not present:
        raise InputError(f"{run.path} has no checkpoint.")
    if step == "latest":
        return present[-1]
    best = best_step(run.metrics(), present)
    if step == "best":
        if best is None:
            raise InputError(
                f"{run.path} has no evaluation to choose the best checkpoint by; --step latest does."
            )
        return best
    if str(step) not in map(str, present):
        shown = ", ".join([*map(str, present), "latest", *(["best"] if best is not None else [])])
        raise InputError(f"{run.path} has no checkpoint of step {step}; there are: {shown}.")
    return int(step)


def _load(directory: Path, abstract: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Items of a checkpoint and what is stored beside them; _DamagedError unless the content is right."""
    about, items = _read(
        lambda: (
            ocp.checkpointables_metadata(directory).custom_metadata,
            ocp.load_checkpointables(directory, abstract),
        )
    )
    for name in abstract:
        if not about or checksum(items[name]) != about["crc32"].get(name):
            raise _DamagedError(f"the content of {name} differs from its checksum")
    return items, about


def _check_shapes(directory: Path, abstract: Any) -> None:
    """Raises InputError where the checkpoint's parameters are not those of the model."""
    saved = _read(lambda: ocp.checkpointables_metadata(directory).metadata["params"])
    theirs, ours = _shapes(saved), _shapes(abstract)
    for name in sorted({*theirs, *ours}):
        if theirs.get(name) != ours.get(name):
            raise InputError(
                f"{directory} does not fit the model: {name} is {theirs.get(name, 'absent')} in the "
                f"checkpoint and {ours.get(name, 'absent')} in the model."
            )


def _shapes(tree: Any) -> dict[str, tuple[int, ...]]:
    leaves = jax.tree.leaves_with_path(tree, is_leaf=lambda leaf: hasattr(leaf, "shape"))
    return {
        "/".join(str(getattr(key, "key", key)) for key in path): tuple(leaf.shape) for path, leaf in leaves
    }


@contextlib.contextmanager
def _write_errors(step: int) -> Iterator[None]:
    try:
        yield
    except CheckpointWriteError:
        raise
    except Exception as error:  # whatever the file system and the library say
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        raise CheckpointWriteError(f"checkpoint {step} was not written: {reason}") from error


def _read(read: Callable[[], Any]) -> Any:
    """What `read` returns; whatever it raises becomes a _DamagedError of one line.

    The library raises many kinds for missing and cut files. The tasks it leaves behind would print tracebacks
    of their own, at the latest when they are collected: they are collected here, and kept quiet.
    """
    tasks = logging.getLogger("asyncio")
    disabled, hook = tasks.disabled, sys.unraisablehook
    tasks.disabled, sys.unraisablehook = True, lambda _: None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return read()
        except Exception as error:
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        finally:
            gc.collect()
            tasks.disabled, sys.unraisablehook = disabled, hook
    raise _DamagedError(reason)
