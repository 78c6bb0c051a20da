"""Updates that are not finite: how they are told from others, and what is said of them."""

import contextlib
import math
from collections.abc import Iterator
from typing import Any

from seqmodels.errors import CheckpointWriteError, NonFiniteError
from seqmodels.training.checkpoints import Checkpoints, steps
from seqmodels.training.run_directory import RunDirectory
from seqmodels.training.step import Metrics


def was_skipped(step: int, metrics: Metrics, allowed: int) -> bool:
    """Whether an update was skipped for a loss or a gradient that is not finite.

    Args:
        step: of the update.
        metrics: of the update, on the host.
        allowed: how many updates may be skipped in all.

    Raises:
        NonFiniteError: it was not skipped, or is one too many; or the parameters are not finite after it,
            which a large learning rate does to them while the gradient still looks well.
    """
    parameters = all(map(math.isfinite, metrics.parameter_norms.values()))
    if parameters and math.isfinite(metrics.loss) and math.isfinite(metrics.gradient_norm):
        return False
    if parameters and 0 < metrics.skipped <= allowed:
        return True

    def listed(norms: dict[str, Any]) -> str:
        return ", ".join(f"{kind} {norm:.3g}" for kind, norm in norms.items())

    raise NonFiniteError(
        f"{_figures(step, metrics)}. Gradient norms: {listed(metrics.gradient_norms)}; parameter norms after "
        f"it: {listed(metrics.parameter_norms)}."
    )


def told(step: int, metrics: Metrics, allowed: int) -> str:
    """The sentence on an update that was skipped."""
    return f"{_figures(step, metrics)}: skipped, number {metrics.skipped} of at most {allowed}."


@contextlib.contextmanager
def naming_the_last_checkpoint(checkpoints: Checkpoints, run: RunDirectory) -> Iterator[None]:
    """Adds to a NonFiniteError what there is to go on from, once the save in the background has ended."""
    try:
        yield
    except NonFiniteError as error:
        with contextlib.suppress(CheckpointWriteError):  # then the one before is the last
            checkpoints.wait()
        found = steps(run.checkpoints)
        last = f"step {found[-1]}, {run.checkpoints / str(found[-1])}" if found else "none"
        raise NonFiniteError(
            f"{error} Last good checkpoint: {last}. A lower learning rate may help, or train.skip_nonfinite, "
            "the number of such updates to skip."
        ) from None


def _figures(step: int, metrics: Metrics) -> str:
    loss, norm = metrics.loss, metrics.gradient_norm
    return f"update {step} has a loss of {loss:.4g} and a gradient of norm {norm:.4g}"
