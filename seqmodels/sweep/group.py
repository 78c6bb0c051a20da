"""The members of one config: their data, the shapes of their job and their compiled step are shared."""

import contextlib
import dataclasses
import fcntl
import gc
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from seqmodels import config
from seqmodels.data.prefetch import Prefetch
from seqmodels.data.text import text_of
from seqmodels.errors import NonFiniteError
from seqmodels.evaluation.model_scorer import ModelScorer
from seqmodels.evaluation.suites import during_training
from seqmodels.sweep import outcome
from seqmodels.sweep.grid import Member, Recipe
from seqmodels.sweep.outcome import Outcome
from seqmodels.training import hardware, loop, startup
from seqmodels.training.checkpoints import Checkpoints, Restored
from seqmodels.training.evaluator import Evaluator
from seqmodels.training.interruption import Interruption
from seqmodels.training.job import Job
from seqmodels.training.log import Log
from seqmodels.training.profiler import Profiler
from seqmodels.training.provenance import hyperparameters, record, run_information
from seqmodels.training.recorder import Recorder
from seqmodels.training.run_directory import RunDirectory
from seqmodels.training.settings import configured
from seqmodels.training.step import TrainState
from seqmodels.training.train import initial_parameters

Tell = Callable[[Member, int], None]
"""Takes how many updates a member has made."""


class Group:
    """Members of a config, trained one after the other; the step is compiled for the first.

    Every member leaves the run directory of a run of its own: with the checkpoint, the evaluation and the log
    that a run leaves which saves and evaluates after its last update alone.

    Args:
        recipe: of the config.
        folder: of the sweep.
        tell: takes how far a member is.

    Raises:
        InputError: the config does not fit its data or the devices.
    """

    def __init__(self, recipe: Recipe, folder: Path, tell: Tell):
        self._recipe, self._folder, self._tell = recipe, folder, tell
        folder.mkdir(parents=True, exist_ok=True)
        loaded = config.load([recipe.file], recipe.flags)
        self._loaded = config.rebind(loaded, recipe.choices(recipe.members[0]))
        self.settings = configured()
        self.data, self.steps = self.settings.data, self.settings.steps
        self.data.prepare(say=lambda _: None)
        with hardware.memory_errors(**self.settings.sizes):
            self.job = self.settings.job()
        hardware.set_precision(self.job.model.dtype)
        self.plan = dataclasses.replace(
            self.settings.plan(),
            checkpoint_every=self.steps,
            evaluate_every=self.steps,
            profile_steps=None,
            keep_every=None,
        )
        self._units, _ = startup.units(self.job, self.data)
        self._initial = initial_parameters(self.settings.initial_parameters, self.job)
        self._facts = run_information(self.job, self.data)
        self._compiled: Callable | None = None
        self._evaluated = False

    def compile(self, *, evaluation_first: bool) -> None:
        """Compiles the step, and before it the evaluation where `evaluation_first`.

        Of two workers on a config one compiles the step while the other compiles the evaluation, and each
        then takes from the cache on disk what the other has made.
        """
        if evaluation_first:
            with self._alone("evaluation"):
                scorer = ModelScorer(self.job.graphdef, self.new_state(self.job).params)
                during_training(scorer, self.data, **self._rows())
        with self._alone("step"):
            self._step()

    def train(self, member: Member) -> Outcome:
        """Trains one member from its beginning, evaluates it, and records what became of it."""
        update = self._step()
        began = time.perf_counter()
        with contextlib.ExitStack() as stack:
            job, run, recorder = stack.enter_context(self.opened(member))
            checkpoints = stack.enter_context(contextlib.closing(Checkpoints(run)))
            try:
                self.loop(
                    Restored(0, self.new_state(job), job.stream.state()),
                    batches=stack.enter_context(Prefetch(job.stream)),
                    update=lambda state, batch: update(state, job.place(batch), job.dials),
                    evaluate=self.evaluator(recorder),
                    checkpoints=checkpoints,
                    recorder=recorder,
                )
                checkpoints.wait()
                failed = None
            except NonFiniteError as error:
                failed = str(error)
        return self.close(run, failed, time.perf_counter() - began)

    @contextlib.contextmanager
    def opened(self, member: Member) -> Iterator[tuple[Job, RunDirectory, Recorder]]:
        """A member's job, its run directory at step 0, and what records it there."""
        loaded = config.rebind(self._loaded, self._recipe.choices(member))
        settings = configured()
        job = self.job.variant(member.seed, member.learning_rate)
        run = outcome.begin(self._folder / member.name, loaded)
        text = text_of(self.data)
        if text is not None:
            text.tokenizer.save(run.tokenizer)
        record(run, loaded, {**self._facts, "seed": member.seed}, 0)
        shown = _Told(lambda step: self._tell(member, step))
        with contextlib.closing(Log(run, 0, shown)) as log:
            log.begin(loaded.text, hyperparameters(job, settings), self.data.kind)
            yield job, run, Recorder(log, self._units, self.plan, step=0, tokens=0)

    def new_state(self, job: Job) -> TrainState:
        """The state of step 0, which the first update may take as its own."""
        return job.new_state(jax.tree.map(jnp.copy, self._initial))

    def evaluator(self, recorder: Recorder) -> Callable[[int, TrainState], dict[str, float]]:
        """The evaluation that training has on its schedule."""
        evaluator = Evaluator(self.job.graphdef, self.data, recorder, **self._rows())

        def evaluate(step: int, state: TrainState) -> dict[str, float]:
            if self._evaluated:
                return evaluator(step, state)
            with self._alone("evaluation"):
                self._evaluated = True
                return evaluator(step, state)

        return evaluate

    def loop(self, begun: Restored, **parts: Any) -> None:
        """The training loop, from step 0 to the evaluation after the last update."""
        profiler = Profiler(None, self._folder)
        with hardware.memory_errors(**self.settings.sizes):
            loop.run(
                begun,
                plan=self.plan,
                evaluated=False,
                interruption=Interruption(),  # watches for nothing: a member starts over
                profiler=profiler,
                **parts,
            )

    def close(self, run: RunDirectory, failed: str | None, seconds: float) -> Outcome:
        """Records what became of a member."""
        last = (run.metrics() or [{"step": 0}])[-1]
        values = {} if failed else {tag: x for tag, x in last.items() if tag.startswith("eval/")}
        ended = Outcome(failed, values, last["step"], seconds)
        outcome.write(run, ended)
        return ended

    def _rows(self) -> dict[str, int]:
        return {"batch_size": self.settings.batch_size, "row_length": self.settings.row_length}

    @contextlib.contextmanager
    def _alone(self, program: str) -> Iterator[None]:
        """While a worker compiles a program inside, others that need the same one wait for it."""
        with open(self._folder / f".{self._recipe.label}.{program}", "a", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _step(self) -> Callable:
        """The compiled step of one member."""
        if self._compiled is None:
            self._compiled = self.job.compile(deterministic=self.settings.deterministic).function
            gc.collect()
            gc.freeze()  # as in a run of its own
        return self._compiled


class _Told:
    """In the place of a terminal: tells how far a run is."""

    def __init__(self, tell: Callable[[int], None]):
        self._tell = tell

    def show(self, step: int, values: dict[str, float], seconds_left: float) -> None:
        """Tells the step."""
        self._tell(step)

    def show_evaluation(self, step: int, values: dict[str, float]) -> None:
        """Says nothing: the outcome has the figures."""

    def say(self, text: str) -> None:
        """Says nothing."""

    def close(self) -> None:
        """Leaves nothing behind."""
