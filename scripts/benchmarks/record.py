"""What a run pays for being written down: a line of metrics every update, a checkpoint every 50."""

import contextlib
from collections.abc import Iterator

from benchmarks.comparison import Comparison, Contender, Target
from benchmarks.loops import looped
from benchmarks.step import CONFIGS, job_of
from seqmodels.training import hardware, startup

QUICKSTART = CONFIGS.parent / "quickstart.gin"
TINY = ("LanguageModel.width=32", "LanguageModel.depth=2", "train.batch_size=8", "train.row_length=32")
EACH, SAVED = "a line an update", "a checkpoint"


def comparisons():
    """The tables, in the order they are printed; the last row of each has a target."""
    hardware.set_precision("float32")
    kinds = {"one line": (50, False), EACH: (1, False), SAVED: (50, True), f"{EACH}, {SAVED}": (1, True)}
    with written_down(QUICKSTART, (), 50, kinds, target=0.95) as comparison:
        yield comparison
    kinds = {"a line every 50": (50, False), EACH: (1, False)}
    with written_down(QUICKSTART, TINY, 200, kinds, target=1 / 1.2) as comparison:
        yield comparison


@contextlib.contextmanager
def written_down(path, flags, updates, kinds, *, target) -> Iterator[Comparison]:
    """Updates of a config with more and less written of them; kinds: (log_every, checkpoint) by name.

    Each is compared with the first; `target` is asked of the last.
    """
    job, settings = job_of(path, flags)
    compiled = job.compile(deterministic=False).function
    units, _ = startup.units(job, settings["data"])
    work = updates * job.rows * job.row_length, "tokens"
    with contextlib.ExitStack() as stack:
        contenders = []
        for name, (log_every, saves) in kinds.items():
            run = looped(job, compiled, units, updates=updates, log_every=log_every, saves=saves)
            contenders.append(Contender(name, stack.enter_context(run), work=work))
        first, *between, last = kinds
        targets = [Target(name, (first,), None) for name in between]
        yield Comparison(
            f"{updates} updates of configs/{path.name} {' '.join(flags)} and what is written of them",
            tuple(contenders),
            (*targets, Target(last, (first,), target)),
        )
