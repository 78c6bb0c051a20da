"""The training loop: save, evaluate, next batch, step."""

import dataclasses
import gc
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from seqmodels.training.checkpoints import Checkpoints
from seqmodels.training.interruption import Interruption
from seqmodels.training.mesh import largest
from seqmodels.training.profiler import Profiler
from seqmodels.training.recorder import Recorder
from seqmodels.training.step import Metrics, TrainState

Batch = dict[str, np.ndarray]
Position = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Plan:
    """When a run does what, in updates.

    Attributes:
        steps: updates in all.
        checkpoint_every: between checkpoints; the last update always has one.
        evaluate_every: between evaluations, the last update included; None never evaluates.
        ask_every: between looks for a signal; several processes wait for one another to agree.
    """

    steps: int
    checkpoint_every: int
    evaluate_every: int | None
    ask_every: int

    def saves(self, step: int) -> bool:
        """Whether a checkpoint is due after `step` updates."""
        return step % self.checkpoint_every == 0 or step == self.steps

    def evaluates(self, step: int) -> bool:
        """Whether an evaluation is due after `step` updates."""
        return self.evaluate_every is not None and (step % self.evaluate_every == 0 or step == self.steps)


def run(
    state: TrainState,
    position: Position,
    step: int,
    *,
    plan: Plan,
    batches: Iterator[tuple[Batch, Position]],
    update: Callable[[TrainState, Batch], tuple[TrainState, Metrics]],
    evaluate: Callable[[int, TrainState], dict[str, float]],
    evaluated: bool,
    checkpoints: Checkpoints,
    recorder: Recorder,
    interruption: Interruption,
    profiler: Profiler,
) -> int:
    """Trains from `step` updates to `plan.steps`, or to the first signal; returns the step it stopped at.

    One update is in flight: while it runs, the host waits for the one before, so that neither runs ahead. A
    checkpoint holds the position of the last batch trained on, and only finite losses come before it.

    Args:
        state: after `step` updates; donated.
        position: of the data after `step` updates.
        step: updates made.
        plan: what is due when.
        batches: each batch with the position of the data after it.
        update: places a batch on the devices and starts one update.
        evaluate: evaluates the state after a step, and returns what it found.
        evaluated: whether the evaluation at `step` is already recorded.
        checkpoints: takes what is saved.
        recorder: takes what is measured.
        interruption: tells of signals.
        profiler: traces some of the updates.
    """
    first = step
    with jax.transfer_guard("disallow"):
        while True:
            interrupted = step % plan.ask_every == 0 and largest(interruption.requested or 0) > 0
            if step > first and (plan.saves(step) or interrupted):
                recorder.catch_up(step)
                with recorder.excluded():
                    checkpoints.save(step, state, position)
            if interrupted:
                return step
            if plan.evaluates(step) and step > 0 and not (step == first and evaluated):
                recorder.catch_up(step)
                with recorder.excluded(), jax.transfer_guard("allow"):
                    checkpoints.evaluated(step, evaluate(step, state))
            if step == plan.steps:
                recorder.catch_up(step)
                return step
            profiler.before(step + 1)
            with recorder.waiting():
                batch, position = next(batches)
            state, metrics = update(state, batch)
            step += 1
            recorder.add(step, metrics)
            recorder.read(step - 1)
            checkpoints.check()
            if step == first + 1:
                interruption.something_to_save = True
                with recorder.excluded():
                    gc.collect()
                    gc.freeze()  # what lives now lives to the end: the collector need not walk it again
