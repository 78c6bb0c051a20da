"""All members of a config as one program, vectorised over them.

The loop, the recorders, the checkpoints and the evaluation are those of a run; here stands what parts the
arrays, whose first axis counts the members.
"""

import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from seqmodels.data.prefetch import Prefetch
from seqmodels.errors import NonFiniteError
from seqmodels.sweep.grid import Member
from seqmodels.sweep.group import Group
from seqmodels.sweep.outcome import Outcome
from seqmodels.training.batches import check_ids
from seqmodels.training.checkpoints import Checkpoints, Restored
from seqmodels.training.compilation import compile_step
from seqmodels.training.job import Job
from seqmodels.training.mesh import ROWS, replicated
from seqmodels.training.recorder import Recorder
from seqmodels.training.step import Metrics, TrainState

Batch = dict[str, np.ndarray]


def train_together(group: Group, members: Sequence[Member]) -> list[Outcome]:
    """Trains members of a group at once; their outcomes in order. One that fails leaves the others be."""
    with contextlib.ExitStack() as stack:
        opened = [stack.enter_context(group.opened(member)) for member in members]
        jobs, runs, recorders = zip(*opened, strict=True)
        checkpoints = [stack.enter_context(contextlib.closing(Checkpoints(run))) for run in runs]
        share = _Shares(jobs)
        batches, recording = _Streams([job.stream for job in jobs]), _Recording(recorders)
        state = share.join([group.new_state(job) for job in jobs])
        deterministic = group.settings.deterministic
        step = jax.vmap(jobs[0].step)
        update = compile_step(step, state, share.batch, share.dials, deterministic=deterministic).function
        began = time.perf_counter()
        with contextlib.suppress(_AllFailedError):  # there is nothing left to train
            group.loop(
                Restored(0, state, batches.state()),
                batches=stack.enter_context(Prefetch(batches)),
                update=lambda state, batch: update(state, share.place(batch), share.dials),
                evaluate=_Evaluating([group.evaluator(each) for each in recorders], recording, share),
                checkpoints=_Saving(checkpoints, recording, share),
                recorder=recording,
            )
        for each in checkpoints:
            each.wait()
    seconds = (time.perf_counter() - began) / len(members)
    return [group.close(run, recording.failed.get(index), seconds) for index, run in enumerate(runs)]


class _Shares:
    """Where the arrays of all members lie, and how they come together and apart.

    batch: shapes, dtypes and shardings of a batch of all. dials: of all.
    """

    def __init__(self, jobs: Sequence[Job]):
        self._members, self._job = len(jobs), jobs[0]
        self._whole = replicated(self._job.mesh)
        self._rows = NamedSharding(self._job.mesh, PartitionSpec(None, None, ROWS))
        self.batch = {
            name: jax.ShapeDtypeStruct((self._members, *leaf.shape), leaf.dtype, sharding=self._rows)
            for name, leaf in self._job.batch.items()
        }
        self.dials = self._stacked([job.dials for job in jobs])

    def join(self, states: Sequence[TrainState]) -> TrainState:
        """The state of all, from that of each; on the host, where it compiles nothing."""
        return self._stacked(states)

    def _stacked(self, trees: Sequence[Any]) -> Any:
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *jax.device_get(list(trees)))
        return jax.device_put(stacked, self._whole)

    def part(self, tree: Any, members: Sequence[int]) -> Iterator[tuple[int, Any]]:
        """The index of each member and what is its own of the tree, on the devices."""
        host = jax.device_get(tree)
        for index in members:
            own = jax.tree.map(lambda leaf, index=index: leaf[index], host)
            yield index, jax.device_put(own, self._whole)

    def place(self, batch: Batch) -> dict[str, jax.Array]:
        """Checks the ids of a batch `[members, B, ...]` and puts it on the devices, in micro-batches."""
        check_ids(batch, self._job.vocab_size)
        micro = {name: rows.reshape(self.batch[name].shape) for name, rows in batch.items()}
        return jax.device_put(micro, self._rows)


class _Streams:
    """Batches of all members, and the positions of their data."""

    def __init__(self, streams: Sequence[Any]):
        self._streams = streams

    def __next__(self) -> Batch:
        batches = [next(stream) for stream in self._streams]
        return {name: np.stack([batch[name] for batch in batches]) for name in batches[0]}

    def state(self) -> list[dict[str, Any]]:
        """The position of each after the last batch handed out."""
        return [stream.state() for stream in self._streams]


class _Recording:
    """The recorders of all members; failed: why, by the index of each that has failed."""

    def __init__(self, recorders: Sequence[Recorder]):
        self._recorders = recorders
        self._pending: deque[tuple[int, Metrics]] = deque()
        self.failed: dict[int, str] = {}

    @property
    def going(self) -> list[int]:
        """The members that have not failed."""
        return [index for index in range(len(self._recorders)) if index not in self.failed]

    def add(self, step: int, metrics: Metrics) -> None:
        """Takes the metrics of update `step` as they are on the device."""
        self._pending.append((step, metrics))

    def read(self, step: int) -> None:
        """As of a recorder: waits for the update before the newest, and logs it when a line is due."""
        if self._recorders[0].due(step):
            self.catch_up(step)
        elif len(self._pending) > 1:
            jax.block_until_ready(self._pending[-2][1].loss)

    def catch_up(self, step: int) -> None:
        """Fetches all metrics up to `step` and hands each member its own."""
        ready = []
        while self._pending and self._pending[0][0] <= step:
            ready.append(self._pending.popleft())
        fetched = jax.device_get([metrics for _, metrics in ready])
        for index in self.going:
            recorder = self._recorders[index]
            for (at, _), metrics in zip(ready, fetched, strict=True):
                recorder.add(at, jax.tree.map(lambda leaf, index=index: leaf[index], metrics))
            try:
                recorder.catch_up(step)
            except NonFiniteError as error:
                self.failed[index] = str(error)
        if not self.going:
            raise _AllFailedError

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Time spent inside is a wait for data."""
        with contextlib.ExitStack() as stack:
            for recorder in self._recorders:
                stack.enter_context(recorder.waiting())
            yield

    @contextlib.contextmanager
    def excluded(self) -> Iterator[None]:
        """Time spent inside is no part of the step time."""
        with contextlib.ExitStack() as stack:
            for recorder in self._recorders:
                stack.enter_context(recorder.excluded())
            yield


class _Evaluating:
    """Evaluates the members that have not failed, one after the other."""

    def __init__(self, evaluators: Sequence[Callable], recording: _Recording, share: _Shares):
        self._evaluators, self._recording, self._share = evaluators, recording, share

    def __call__(self, step: int, state: TrainState) -> dict[str, float]:
        for index, own in self._share.part(state, self._recording.going):
            self._evaluators[index](step, own)
        return {}


class _Saving:
    """Saves the members that have not failed, each to its own checkpoints."""

    def __init__(self, checkpoints: Sequence[Checkpoints], recording: _Recording, share: _Shares):
        self._checkpoints, self._recording, self._share = checkpoints, recording, share

    def save(self, step: int, state: TrainState, data: list[dict[str, Any]]) -> None:
        """As of the checkpoints of a run."""
        for index, own in self._share.part(state, self._recording.going):
            self._checkpoints[index].save(step, own, data[index])

    def check(self) -> None:
        """As of the checkpoints of a run."""
        for each in self._checkpoints:
            each.check()

    def evaluated(self, step: int, values: dict[str, float]) -> None:
        """The last checkpoint is the only one: there is none to choose."""


class _AllFailedError(Exception):
    """No member is left."""
