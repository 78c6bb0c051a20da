"""The steps of all configs under configs/mixers, which share one budget of parameters and one batch."""

from benchmarks.comparison import Comparison, Contender
from benchmarks.step import CONFIGS, job_of, steps
from seqmodels.training import hardware

BUDGET = "budget.gin"  # what they include, and no config by itself


def comparisons():
    """One table, whose contenders are all compiled before the first turn."""
    hardware.set_precision("float32")
    yield shipped(path for path in sorted(CONFIGS.glob("*.gin")) if path.name != BUDGET)


def shipped(paths):
    """One update of each config on a batch of its own data."""

    def contender(path):
        job, _ = job_of(path)
        batch = job.place(next(job.stream))
        run = steps(job.compile(deterministic=False).function, job.new_state(), batch, job.dials)
        return Contender(path.stem, run, work=(job.rows * job.row_length, "tokens"))

    return Comparison("steps of configs/mixers", tuple(contender(path) for path in paths))
