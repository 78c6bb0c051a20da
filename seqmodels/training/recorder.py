"""Fetches what the steps report, refuses what is not finite, and logs it with the rates of the run."""

import contextlib
import math
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax

from seqmodels.errors import NonFiniteError
from seqmodels.training.log import Log
from seqmodels.training.plan import Plan
from seqmodels.training.step import Metrics, count_tokens


class Units(NamedTuple):
    """What turns a step's figures into ones that compare across runs.

    Attributes:
        flops_per_update: forward and backward, padding included.
        ceiling_flops: that the devices can do a second.
        bytes_per_token: of the training text; None where the data is no text.
    """

    flops_per_update: float
    ceiling_flops: float
    bytes_per_token: float | None


class Recorder:
    """Takes the metrics of every update, fetches them when a line is due, and logs the last.

    Until then metrics stay on the device; the loop reads those of an update after it has dispatched the next,
    so that the device never waits for the host.

    Args:
        log: where the figures go; None in all processes but the first.
        units: of the derived figures.
        plan: says when a line is due.
        step: updates made before.
        tokens: seen before.
    """

    def __init__(self, log: Log | None, units: Units, plan: Plan, *, step: int, tokens: int):
        self._log, self._units, self._plan = log, units, plan
        self._pending: deque[tuple[int, Metrics]] = deque()
        self._tokens = tokens
        self._window = _Window(step, tokens)

    def due(self, step: int) -> bool:
        """Whether a line is due after update `step`."""
        return self._plan.logs(step)

    def add(self, step: int, metrics: Metrics) -> None:
        """Takes the metrics of update `step` as they are on the device."""
        self._pending.append((step, metrics))

    def read(self, step: int) -> None:
        """Waits for update `step`, the one before the newest; logs it when a line is due.

        Raises:
            NonFiniteError: the loss or the gradient of an update up to `step` is not finite.
        """
        if self._plan.logs(step):
            self.catch_up(step)
        elif len(self._pending) > 1:
            jax.block_until_ready(self._pending[-2][1].loss)

    def catch_up(self, step: int) -> None:
        """Fetches all metrics up to `step`, refuses what is not finite, and logs the line that is due."""
        ready = []
        while self._pending and self._pending[0][0] <= step:
            ready.append(self._pending.popleft())
        if not ready:
            return
        fetched = jax.device_get([metrics for _, metrics in ready])
        for (at, _), metrics in zip(ready, fetched, strict=True):
            _check_finite(at, metrics)
        self._tokens = count_tokens(fetched[-1].tokens)
        if self._plan.logs(step) and self._log is not None:
            values = self._scalars(fetched[-1]) | self._rates(step)
            self._log.scalars(step, self._tokens, values)
            self._log.show(step, values, (self._plan.steps - step) * values["train/step_time"])

    def evaluation(self, step: int, values: dict[str, float]) -> None:
        """Logs the figures of an evaluation after `step` updates, all of which are read."""
        if self._log is not None:
            self._log.scalars(step, self._tokens, values)
            self._log.show_evaluation(step, values)

    def text(self, tag: str, text: str, step: int) -> None:
        """Logs a text."""
        if self._log is not None:
            self._log.text(tag, text, step)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Time spent inside is a wait for data."""
        start = time.perf_counter()
        yield
        self._window.waited += time.perf_counter() - start

    @contextlib.contextmanager
    def excluded(self) -> Iterator[None]:
        """Time spent inside (saving, evaluating) is no part of the step time and the token rate."""
        start = time.perf_counter()
        yield
        self._window.excluded += time.perf_counter() - start

    def _scalars(self, metrics: Metrics) -> dict[str, float]:
        values = {
            "train/loss": float(metrics.loss),
            "train/learning_rate": float(metrics.learning_rate),
            "train/gradient_norm": float(metrics.gradient_norm),
        }
        if self._units.bytes_per_token is not None:
            values["train/bits_per_byte"] = values["train/loss"] / math.log(2) / self._units.bytes_per_token
        for name in ("gradient_norm", "parameter_norm", "update_norm"):
            for kind, norm in getattr(metrics, f"{name}s").items():
                values[f"train/{name}/{kind}"] = float(norm)
        return values

    def _rates(self, step: int) -> dict[str, float]:
        window, self._window = self._window, _Window(step, self._tokens)
        seconds = self._window.start - window.start - window.excluded
        steps = step - window.step
        return {
            "train/tokens_per_second": (self._tokens - window.tokens) / seconds,
            "train/step_time": seconds / steps,
            "train/data_wait": window.waited / steps,
            "train/mfu": self._units.flops_per_update * steps / seconds / self._units.ceiling_flops,
        }


class _Window:
    """The time since the last line: when it began, and what of it was spent on what."""

    def __init__(self, step: int, tokens: int):
        self.start = time.perf_counter()
        self.step, self.tokens = step, tokens
        self.waited = self.excluded = 0.0


def _check_finite(step: int, metrics: Metrics) -> None:
    if math.isfinite(metrics.loss) and math.isfinite(metrics.gradient_norm):
        return

    def listed(norms: dict[str, Any]) -> str:
        return ", ".join(f"{kind} {norm:.3g}" for kind, norm in norms.items())

    raise NonFiniteError(
        f"update {step} has a loss of {metrics.loss:.4g} and a gradient of norm {metrics.gradient_norm:.4g}. "
        f"Gradient norms: {listed(metrics.gradient_norms)}; parameter norms after it: "
        f"{listed(metrics.parameter_norms)}. No checkpoint was written from there on."
    )
