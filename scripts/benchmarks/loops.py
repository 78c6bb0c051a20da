"""The training loop as a contender, with its data, its log and its checkpoints."""

import contextlib
import io
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from seqmodels.data.prefetch import Prefetch
from seqmodels.training import loop
from seqmodels.training.checkpoints import Checkpoints, Restored
from seqmodels.training.interruption import Interruption
from seqmodels.training.log import Log
from seqmodels.training.plan import Plan
from seqmodels.training.profiler import Profiler
from seqmodels.training.recorder import Recorder
from seqmodels.training.run_directory import RunDirectory
from seqmodels.training.terminal import Terminal


@contextlib.contextmanager
def looped(job, compiled, units, *, updates, log_every, saves) -> Iterator[Callable[[], None]]:
    """Yields what makes some updates a call, going on from where the call before left off.

    It has a run directory of its own, and evaluates nothing. With `saves` a checkpoint follows the last
    update of each call, which waits until it is written.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "config.gin").touch()
        run = RunDirectory(folder)
        with contextlib.redirect_stdout(io.StringIO()):  # the log keeps its terminal, which stays unseen
            log = stack.enter_context(contextlib.closing(Log(run, 0, Terminal(0, 0))))
        checkpoints = stack.enter_context(contextlib.closing(Checkpoints(run))) if saves else _NothingSaved()
        batches = stack.enter_context(Prefetch(job.make_stream(job.seed)))
        yield _Turns(job, compiled, units, batches, log, checkpoints, updates, log_every)


class _Turns:
    """Calls of the training loop, each of as many updates."""

    def __init__(self, job, compiled, units, batches, log, checkpoints, updates, log_every):
        self._job, self._compiled, self._units = job, compiled, units
        self._batches, self._log, self._checkpoints = batches, log, checkpoints
        self._updates, self._log_every = updates, log_every
        self._step, self._state = 0, job.new_state()

    def __call__(self):
        end = self._step + self._updates
        plan = Plan(end, self._log_every, end, None, None)
        self._step = loop.run(
            Restored(self._step, self._state, {}),
            plan=plan,
            batches=self._batches,
            update=self._update,
            evaluate=lambda *_: {},
            evaluated=True,
            checkpoints=self._checkpoints,
            recorder=Recorder(self._log, self._units, plan, step=self._step, tokens=0),
            interruption=Interruption(),
            profiler=Profiler(None, Path()),
        )
        self._checkpoints.wait()

    def _update(self, before, batch):
        self._state, metrics = self._compiled(before, self._job.place(batch), self._job.dials)
        return self._state, metrics


class _NothingSaved:
    """In the place of a run's checkpoints."""

    def save(self, *_):
        """Saves nothing."""

    def check(self):
        """Nothing can have gone wrong."""

    def wait(self):
        """There is nothing to wait for."""
