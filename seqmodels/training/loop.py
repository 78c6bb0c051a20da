"""The training loop: save, evaluate, next batch, step."""

from collections.abc import Callable

import jax

from seqmodels.data.packing import Batch
from seqmodels.data.prefetch import Prefetch
from seqmodels.training.checkpoints import Checkpoints, Restored
from seqmodels.training.interruption import Interruption
from seqmodels.training.plan import Plan
from seqmodels.training.processes import largest
from seqmodels.training.profiler import Profiler
from seqmodels.training.recorder import Recorder
from seqmodels.training.step import Metrics, TrainState


def run(
    begun: Restored,
    *,
    plan: Plan,
    batches: Prefetch,
    update: Callable[[TrainState, Batch], tuple[TrainState, Metrics]],
    evaluate: Callable[[int, TrainState], dict[str, float]],
    evaluated: bool,
    checkpoints: Checkpoints,
    recorder: Recorder,
    interruption: Interruption,
    profiler: Profiler,
) -> int:
    """Trains to the last step or the first signal; returns the step it stopped at.

    One update is in flight: while it runs, the host waits for the one before, so that neither runs ahead. A
    checkpoint holds the position of the last batch trained on, and only finite losses come before it.

    Args:
        begun: the step, the state (donated) and the position in the data that the run begins with.
        plan: what is due when.
        batches: each batch with the position of the data after it.
        update: places a batch on the devices and starts one update.
        evaluate: evaluates the state after a step, and returns what it found.
        evaluated: whether the evaluation at the first step is already recorded.
        checkpoints: takes what is saved.
        recorder: takes what is measured.
        interruption: tells of signals.
        profiler: traces some of the updates.
    """
    first, state, position = begun
    step = first
    # Several processes must agree on when to stop, and wait for one another when they ask.
    alone = jax.process_count() == 1
    with jax.transfer_guard("disallow"):
        while True:
            interrupted = (alone or plan.logs(step)) and largest(interruption.requested or 0) > 0
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
            if not batches.ready:  # nothing to dispatch: beyond the update in flight, the devices wait too
                jax.block_until_ready(state)
            with recorder.waiting():
                batch, position = next(batches)
            state, metrics = update(state, batch)
            step += 1
            recorder.add(step, metrics)
            recorder.read(step - 1)
            checkpoints.check()
            if step == first + 1:
                interruption.something_to_save = True
