"""When a run does what, in updates."""

import dataclasses

from seqmodels.errors import InputError


@dataclasses.dataclass(frozen=True)
class Plan:
    """When a run does what, in updates; the last update logs, saves and evaluates whatever the intervals.

    Attributes:
        steps: updates in all.
        log_every: between lines of metrics.
        checkpoint_every: between checkpoints.
        evaluate_every: between evaluations; None never evaluates.
        profile_steps: the first and the last update that the profiler traces; None traces none.
        skip_nonfinite: how many updates in all may be skipped because they are not finite.
        keep_every: checkpoints whose step is a multiple of it stay, beside the newest two and the best.

    Raises:
        InputError: a number below 1, or updates that there are not.
    """

    steps: int
    log_every: int
    checkpoint_every: int
    evaluate_every: int | None
    profile_steps: tuple[int, int] | None
    skip_nonfinite: int = 0
    keep_every: int | None = None

    def __post_init__(self):
        for name in ("steps", "log_every", "checkpoint_every", "evaluate_every", "keep_every"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"train.{name} = {value} should be at least 1.")
            if value is not None and value >= 2**31:
                raise InputError(f"train.{name} = {value} is too large: updates are counted in 31 bits.")
        if self.skip_nonfinite < 0:
            raise InputError(f"train.skip_nonfinite = {self.skip_nonfinite} should be at least 0.")
        if self.profile_steps is not None:
            first, last = self.profile_steps
            if not 1 <= first <= last <= self.steps:
                wanted = f"two updates of 1 to {self.steps}, in order"
                raise InputError(f"train.profile_steps = {self.profile_steps} should be {wanted}.")

    def logs(self, step: int) -> bool:
        """Whether a line of metrics is due after `step` updates."""
        return step % self.log_every == 0 or step == self.steps

    def saves(self, step: int) -> bool:
        """Whether a checkpoint is due after `step` updates."""
        return step % self.checkpoint_every == 0 or step == self.steps

    def evaluates(self, step: int) -> bool:
        """Whether an evaluation is due after `step` updates."""
        return self.evaluate_every is not None and (step % self.evaluate_every == 0 or step == self.steps)
