"""What a config says of a training run: the arguments of `train`."""

import dataclasses

import gin

from seqmodels.errors import InputError
from seqmodels.language_model import ModelClass
from seqmodels.training.job import DataSource, Job, make_job
from seqmodels.training.optimizers import Optimizer
from seqmodels.training.plan import Plan


@gin.register("train")
@dataclasses.dataclass(frozen=True)
class Settings:
    """What to train on what, and how.

    Attributes:
        model: a reference to LanguageModel.
        data: what to train on.
        optimizer: AdamW or Muon.
        steps: updates in all.
        batch_size: rows an update, over all micro-batches, devices and processes.
        row_length: tokens in a row.
        seed: of parameters, data order and dropout.
        accumulation: micro-batches that an update's rows are parted into, to save memory.
        log_every: updates between lines of metrics.
        evaluate_every: updates between evaluations; None never evaluates.
        checkpoint_every: updates between checkpoints; the last update always has one.
        keep_every: checkpoints whose step is a multiple of it stay, beside the newest two and the best.
        allow_changes: go on though learning rate, schedule, weight decay or clipping are not those of the run
            so far; for this start, and not kept with the run.
        profile_steps: first and last update to trace for TensorBoard's profile tab.
        initial_parameters: another run's directory, whose newest parameters this run starts from at step 0.
        skip_nonfinite: updates in all that are skipped, and not made, where their loss or gradient is not
            finite; the next one ends the run, with 0 the first.
        deterministic: on a GPU, only kernels that give the same bits each time.
    """

    model: ModelClass = gin.REQUIRED
    data: DataSource = gin.REQUIRED
    optimizer: Optimizer = gin.REQUIRED
    steps: int = gin.REQUIRED
    batch_size: int = gin.REQUIRED
    row_length: int = gin.REQUIRED
    seed: int = 0
    accumulation: int = 1
    log_every: int = 10
    evaluate_every: int | None = None
    checkpoint_every: int = 1000
    keep_every: int | None = None
    allow_changes: bool = False
    profile_steps: tuple[int, int] | None = None
    initial_parameters: str | None = None
    skip_nonfinite: int = 0
    deterministic: bool = False

    def __post_init__(self):
        if not 0 <= self.seed < 2**32:
            raise InputError(f"train.seed = {self.seed} should be a whole number from 0 to {2**32 - 1}.")

    @property
    def sizes(self) -> dict[str, int]:
        """Those of a batch, by name."""
        return {name: getattr(self, name) for name in ("batch_size", "row_length", "accumulation")}

    def plan(self) -> Plan:
        """When a run of these settings does what. Errors as `Plan`."""
        return Plan(**{field.name: getattr(self, field.name) for field in dataclasses.fields(Plan)})

    def job(self) -> Job:
        """The job of these settings; their data is prepared. Errors as `make_job`."""
        return make_job(
            self.model,
            self.data,
            self.optimizer,
            steps=self.steps,
            seed=self.seed,
            skip_nonfinite=self.skip_nonfinite > 0,
            **self.sizes,
        )


def configured() -> Settings:
    """The settings of the config that was loaded last, which thereby count as used."""
    return gin.get_configurable(Settings)()
