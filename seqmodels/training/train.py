"""`train`: from a config to a trained model in a run directory."""

import contextlib
import gc
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax

from seqmodels import config
from seqmodels.data.prefetch import Prefetch
from seqmodels.data.text import text_of
from seqmodels.errors import Interrupted
from seqmodels.training import hardware, loop, report, startup
from seqmodels.training.checkpoints import Checkpoints, Restored, restore_params
from seqmodels.training.checkpoints import steps as steps_of
from seqmodels.training.compilation import Compiled, use_cache
from seqmodels.training.evaluator import Evaluator
from seqmodels.training.interruption import Interruption
from seqmodels.training.job import DataSource, Job
from seqmodels.training.lock import Lock
from seqmodels.training.log import Log
from seqmodels.training.non_finite import naming_the_last_checkpoint
from seqmodels.training.plan import Plan
from seqmodels.training.processes import agreement, check_same, leaving_if_lost
from seqmodels.training.profiler import Profiler
from seqmodels.training.provenance import hyperparameters, record, run_information
from seqmodels.training.recorder import Recorder, Units
from seqmodels.training.run_directory import RunDirectory, is_run, write_whole
from seqmodels.training.settings import configured
from seqmodels.training.start import Resume, check_data, check_start
from seqmodels.training.step import count_tokens
from seqmodels.training.terminal import Terminal


def train(
    path: Path | None, loaded: config.Config, resume: Resume, check: bool, interruption: Interruption
) -> None:
    """Trains the model of a config, or goes on where an earlier process stopped.

    Args:
        path: the run directory; None only with `check`.
        loaded: the config, the last that was loaded; what it can say is in `settings`.
        resume: see `start`.
        check: resolve, compile and report, and stop before the first step, with nothing written.
        interruption: watches for signals.

    Raises:
        InputError, NonFiniteError, CheckpointWriteError, Interrupted: see `seqmodels.errors`.
    """
    settings = configured()
    if settings.allow_changes:
        loaded = config.rebind(loaded, ["train.allow_changes = False"])  # consent is given anew at each start
    data, steps, evaluate_every = settings.data, settings.steps, settings.evaluate_every
    plan = settings.plan()
    hardware.check_platform()
    primary = jax.process_index() == 0
    say = print if primary else _silent
    check_same("the command", f"{loaded.text} {path} {resume} {check}")
    with contextlib.ExitStack() as stack:
        with agreement():
            if path is not None and primary:
                check_start(path, loaded, resume, settings, say)
                if not check:
                    stack.enter_context(Lock(path))
                    # Another run may have come in between.
                    check_start(path, loaded, resume, settings, _silent)
        use_cache()
        with agreement():
            text = text_of(data)
            if path is not None and text is not None and steps_of(path / "checkpoints"):
                text.tokenizer.restore(RunDirectory(path).tokenizer)
            data.prepare(say=say)
            if path is not None:
                check_data(path, data)
            stack.enter_context(hardware.memory_errors(**settings.sizes))
            job = settings.job()
        check_same("the data", data.fingerprint)
        hardware.set_precision(job.model.dtype)
        initial = None
        if path is None or not steps_of(path / "checkpoints"):
            initial = initial_parameters(settings.initial_parameters, job)
        if check:
            _compile_and_report(job, data, plan, 0, settings.deterministic, say)
            return

        run = _open(path, loaded)
        checkpoints = stack.enter_context(contextlib.closing(Checkpoints(run, plan.keep_every)))
        begun = _begin(job, checkpoints, initial, say)
        evaluated = any(tag.startswith("eval/") for tag in run.metrics_at(begun.step))
        if begun.step == steps and (evaluated or evaluate_every is None):
            say(f"{path} is finished: it is at step {steps} of {steps}.")
            return
        if 0 < begun.step < steps:
            rate = f"learning rate {job.learning_rate(begun.state):.6g}"
            say(f"going on from step {begun.step}: update {begun.step + 1} of {steps} has {rate}.")

        if primary:
            if text is not None:
                text.tokenizer.save(run.tokenizer)
            record(run, loaded, run_information(job, data), begun.step)
        compiled, units = _compile_and_report(job, data, plan, begun.step, settings.deterministic, say)
        log = None
        if primary:
            terminal = Terminal(begun.step, steps)
            log = stack.enter_context(contextlib.closing(Log(run, begun.step, terminal)))
            if begun.step == 0:
                log.begin(loaded.text, hyperparameters(job, settings), data.kind)
        tokens = count_tokens(jax.device_get(begun.state.tokens))
        stack.enter_context(naming_the_last_checkpoint(checkpoints, run))
        recorder = Recorder(log, units, plan, step=begun.step, tokens=tokens)
        stack.enter_context(contextlib.closing(recorder))
        profiler = stack.enter_context(contextlib.closing(Profiler(settings.profile_steps, run.path)))
        prefetch = stack.enter_context(Prefetch(job.stream))
        stack.enter_context(leaving_if_lost())
        gc.collect()
        gc.freeze()  # what lives now lives to the end: the collector need not walk it between the steps
        stopped = loop.run(
            begun,
            plan=plan,
            batches=prefetch,
            update=lambda state, batch: compiled.function(state, job.place(batch), job.dials),
            evaluate=Evaluator(
                job.graphdef,
                data,
                recorder,
                batch_size=settings.batch_size,
                row_length=settings.row_length,
            ),
            evaluated=evaluated,
            checkpoints=checkpoints,
            recorder=recorder,
            interruption=interruption,
            profiler=profiler,
        )
        checkpoints.wait()
    if stopped < steps or interruption.requested is not None:
        number = interruption.requested or signal.SIGTERM  # another process received it
        message = f"interrupted, saved at step {stopped}; the same command goes on from there."
        raise Interrupted(message, number)
    say(f"done: {steps} steps in {path}; look: tensorboard --logdir {path.parent}")


def _silent(_: str) -> None:
    """What processes other than the first say."""


def _open(path: Path, loaded: config.Config) -> RunDirectory:
    """The run directory, made by the first process where it is new."""
    with agreement():
        if jax.process_index() == 0 and not is_run(path):
            write_whole(path / "config.gin", loaded.text)
    with agreement():
        return RunDirectory(path)


def initial_parameters(source: str | None, job: Job) -> Any | None:
    """The newest parameters of another run, if one is named."""
    if source is None:
        return None
    return restore_params(RunDirectory(source), "latest", job.state.params)[1]


def _begin(job: Job, checkpoints: Checkpoints, initial: Any | None, say: Callable[[str], None]) -> Restored:
    """The newest checkpoint, or step 0; the stream stands where that left off."""
    restored = checkpoints.restore(job.state, say)
    if restored is None:
        return Restored(0, job.new_state(initial), job.stream.state())
    job.stream.restore(restored.data)
    return restored


def _compile_and_report(
    job: Job, data: DataSource, plan: Plan, step: int, deterministic: bool, say: Callable[[str], None]
) -> tuple[Compiled, Units]:
    units, ceiling_source = startup.units(job, data)
    say(f"compiling the step for {hardware.describe()} ...")
    compiled = job.compile(deterministic=deterministic)
    hardware.check_memory(compiled.function)
    report.show(startup.rows(job, data, compiled, units, ceiling_source, step=step, steps=plan.steps), say)
    return compiled, units
