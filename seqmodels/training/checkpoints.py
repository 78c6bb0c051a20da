"""Checkpoints: written in the background, checked when read; the newest, the best and every so many are kept.

A checkpoint is a folder named by its step. It is written under another name, its files are listed with their
checksums, and only then does it take its name: whatever ends the process or fills the disk, the checkpoints
before it are untouched, and one that is not whole is noticed.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
from orbax.checkpoint import v1 as ocp

from seqmodels.errors import CheckpointWriteError, InputError
from seqmodels.training import checkpoint_arrays, checkpoint_files, orbax_noise
from seqmodels.training.best import best_step
from seqmodels.training.processes import largest
from seqmodels.training.run_directory import RunDirectory
from seqmodels.training.step import TrainState

orbax_noise.silence()

# Made in the background, a folder that cannot be made would keep other threads waiting for it, for minutes.
_FOLDERS_FIRST = ocp.Context(async_options=ocp.options.AsyncOptions(create_directories_asynchronously=False))

KEPT = 2  # the newest, and the one to fall back to when the newest is damaged
UNFINISHED, DELETED, DAMAGED = ".unfinished", ".deleted", ".damaged"  # behind the step: no checkpoint


class Restored(NamedTuple):
    """What a run goes on from: the state after `step` updates and the position in the data."""

    step: int
    state: TrainState
    data: dict[str, Any]


class Checkpoints:
    """The checkpoints of a run in progress: saves, keeps what is to be kept, restores.

    Args:
        run: the run directory, which no other run writes.
        keep_every: checkpoints whose step is a multiple of it stay.
    """

    def __init__(self, run: RunDirectory, keep_every: int | None = None):
        self._directory = run.checkpoints
        self._keep_every = keep_every
        self._evaluations = run.metrics()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._saving: tuple[int, Future[None]] | None = None

    def restore(self, abstract: TrainState, say: Callable[[str], None]) -> Restored | None:
        """The newest checkpoint that is whole; None where there is none at all.

        Damaged ones are set aside and unfinished ones removed, each with a sentence.

        Args:
            abstract: shapes, dtypes and shardings to restore into.
            say: takes the sentences.

        Raises:
            InputError: there are checkpoints, and all are damaged; or the newest whole one lacks what a run
                needs to go on, or is of another model or optimizer.
        """
        self._remove_unfinished(say)
        step = self._newest_whole(say)
        if step is None:
            return None
        directory = self._directory / str(step)
        wanted = _items(abstract)
        lacking = [item for item in wanted if not (directory / item).is_dir()]
        items, about = ({}, {}) if lacking else checkpoint_arrays.load(directory, wanted)
        if lacking or "data" not in about:
            without = " and ".join(lacking) or "the position in the data"
            raise InputError(
                f"{directory} was saved without {without}, so no run can go on from it; it can be evaluated "
                "and give a new run its train.initial_parameters."
            )
        self._evaluations = [line for line in self._evaluations if line["step"] <= step]
        loop = items["loop"]
        state = TrainState(items["params"], items["opt_state"], loop["step"], loop["tokens"])
        return Restored(step, state, about["data"])

    def save(self, step: int, state: TrainState, data: dict[str, Any]) -> None:
        """Starts writing a checkpoint; waits for the one before. Safe with a state that is donated next.

        Raises:
            CheckpointWriteError: this or the previous checkpoint could not be written.
        """
        self.wait()
        items = _items(state)
        checksums = {item: checkpoint_arrays.checksum(tree) for item, tree in items.items()}
        with self._write_errors(step), jax.transfer_guard("allow"), _FOLDERS_FIRST:
            response = ocp.save_checkpointables_async(
                self._at(step, UNFINISHED), items, custom_metadata={"crc32": checksums, "data": data}
            )
            self._saving = step, self._writer.submit(self._finish, step, response)

    def evaluated(self, step: int, values: dict[str, float]) -> None:
        """Takes note of an evaluation, by which the best checkpoint is chosen."""
        self._evaluations.append({"step": step, **values})

    def check(self) -> None:
        """Raises CheckpointWriteError if the save in the background has failed; does not wait for it."""
        if self._saving is not None and self._saving[1].done():
            self.wait()

    def wait(self) -> None:
        """Waits for the save in the background; raises CheckpointWriteError if it failed."""
        if self._saving is not None:
            (step, finished), self._saving = self._saving, None
            with self._write_errors(step):
                finished.result()

    def close(self) -> None:
        """Waits, and ends the thread that writes."""
        try:
            self.wait()
        finally:
            self._writer.shutdown()

    def _finish(self, step: int, response: ocp.AsyncResponse) -> None:
        """In the background: waits until all is written, lists the files, gives the checkpoint its name."""
        response.result()
        if jax.process_index() == 0:
            checkpoint_files.write_list(self._at(step, UNFINISHED))
            self._at(step, UNFINISHED).rename(self._at(step))
            self._prune()

    def _prune(self) -> None:
        """Deletes the checkpoints that are not to be kept."""
        present = steps(self._directory)
        kept = {*present[-KEPT:], best_step(self._evaluations, present)}
        if self._keep_every is not None:
            kept |= {step for step in present if step % self._keep_every == 0}
        for step in sorted({*present} - kept):
            with contextlib.suppress(OSError):  # the new checkpoint is whole, whatever becomes of an old one
                self._at(step).rename(self._at(step, DELETED))  # at once, so that no half of it is found
                shutil.rmtree(self._at(step, DELETED))

    def _newest_whole(self, say: Callable[[str], None]) -> int | None:
        """The step to go on from; the first process decides it for all and sets aside what is damaged."""
        found = steps(self._directory)
        damaged: dict[int, str] = {}
        if jax.process_index() == 0:
            for step in reversed(found):
                reason = checkpoint_files.damage(self._at(step))
                if reason is None:
                    break
                damaged[step] = reason
        count = largest(len(damaged))
        if found and count == len(found):
            reasons = "; ".join(f"{step}: {reason}" for step, reason in damaged.items())
            raise InputError(f"none of the checkpoints in {self._directory} can be restored ({reasons}).")
        for step, reason in damaged.items():
            aside = self._at(step, DAMAGED)
            shutil.rmtree(aside, ignore_errors=True)
            self._at(step).rename(aside)
            say(f"checkpoint {step} is damaged and skipped ({reason}); it now lies in {aside}.")
        return found[-1 - count] if found else None

    def _remove_unfinished(self, say: Callable[[str], None]) -> None:
        """Removes what a run leaves behind that is stopped while it saves or deletes."""
        if jax.process_index() > 0 or not self._directory.is_dir():
            return
        for path in sorted(self._directory.iterdir()):
            step, _, _ = path.name.partition(".")
            unfinished = path.name.startswith(f"{step}{UNFINISHED}")  # the library adds to the name
            left = unfinished or path.name == f"{step}{DELETED}"
            if not (step.isdecimal() and left and path.is_dir()):
                continue  # whatever else lies here is the user's
            shutil.rmtree(path, ignore_errors=True)
            if unfinished:
                say(
                    f"checkpoint {step} is skipped: the run was stopped in its save; what it left is removed."
                )

    def _at(self, step: int, state: str = "") -> Path:
        return self._directory / f"{step}{state}"

    @contextlib.contextmanager
    def _write_errors(self, step: int) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # whatever the file system and the library say
            if jax.process_index() == 0:
                for path in self._directory.glob(f"{step}{UNFINISHED}*"):
                    shutil.rmtree(path, ignore_errors=True)  # on a full disk its room is needed
            raise CheckpointWriteError(
                f"checkpoint {step} was not written to {self._directory}: {_reason(error)}; once that is "
                "mended, the same command goes on."
            ) from error


def steps(directory: Path) -> list[int]:
    """The steps that have a finished checkpoint, ascending; unfinished ones have other names.

    Raises InputError where the directory cannot be read.
    """
    try:
        return sorted(
            int(entry.name) for entry in directory.iterdir() if entry.name.isdecimal() and entry.is_dir()
        )
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise InputError(f"{directory} cannot be read: {error.strerror}.") from None


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
        InputError: no such checkpoint, one that is damaged or cannot be read, or one of another model.
    """
    chosen = _choose(run, step)
    one_device = jax.sharding.SingleDeviceSharding(jax.local_devices()[0])
    abstract = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=leaf.sharding or one_device),
        abstract,
    )
    directory = run.checkpoints / str(chosen)
    # Checkpoints of earlier versions have no list, only the checksums of their arrays.
    if checkpoint_files.has_list(directory) and (reason := checkpoint_files.damage(directory, {"params"})):
        raise InputError(f"{directory} is damaged: {reason}.")
    items, _ = checkpoint_arrays.load(directory, {"params": abstract})
    return chosen, items["params"]


def _items(state: TrainState) -> dict[str, Any]:
    """The state as orbax stores it: three items, each of which can be loaded alone."""
    loop = {"step": state.step, "tokens": state.tokens}
    return {"params": state.params, "opt_state": state.opt_state, "loop": loop}


def _reason(error: Exception) -> str:
    """Why a write failed: what the system says of it, where the error tells."""
    code = re.search(r"os_error_code='(\d+)'", str(error))  # of the library below orbax
    number = int(code[1]) if code else getattr(error, "errno", None)
    if number is not None:
        return os.strerror(number)
    return str(error).strip().partition("\n")[0] or type(error).__name__


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
