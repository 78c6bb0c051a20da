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
from seqmodels.training.non_finite import told, was_skipped
from seqmodels.training.plan import Plan
from seqmodels.training.scalars import numbers
from seqmodels.training.step import Metrics, count_tokens
from seqmodels.training.watchdog import Watchdog


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
        self._watchdog = Watchdog()
        self._refused: set[str] = set()  # tags whose values are no numbers

    def due(self, step: int) -> bool:
        """Whether a line is due after update `step`."""
        return self._plan.logs(step)

    def add(self, step: int, metrics: Metrics) -> None:
        """Takes the metrics of update `step` as they are on the device."""
        self._pending.append((step, metrics))

    def read(self, step: int) -> None:
        """Waits for update `step`, the one before the newest; logs it when a line is due.

        Raises:
            NonFiniteError: an update up to `step` is not finite, and none that may be skipped.
        """
        if self._plan.logs(step):
            self.catch_up(step)
        elif len(self._pending) > 1:
            jax.block_until_ready(self._pending[-2][1].loss)

    def catch_up(self, step: int) -> None:
        """Fetches all metrics up to `step`, refuses what is not finite, and logs the line that is due.

        The line of an update that ends the run is logged whether due or not. Errors as `read`.
        """
        ready = []
        while self._pending and self._pending[0][0] <= step:
            ready.append(self._pending.popleft())
        if not ready:
            return
        fetched = jax.device_get([metrics for _, metrics in ready])
        for (at, _), metrics in zip(ready, fetched, strict=True):
            self._tokens = count_tokens(metrics.tokens)
            try:
                skipped = was_skipped(at, metrics, self._plan.skip_nonfinite)
            except NonFiniteError:
                self._pending.clear()
                self._line(at, metrics)
                raise
            if skipped:
                self._say(told(at, metrics, self._plan.skip_nonfinite))
        if self._plan.logs(step):
            self._line(step, fetched[-1])

    def close(self) -> None:
        """Logs what was taken and not read, where an error elsewhere has ended the run; that one counts."""
        if self._pending:
            with contextlib.suppress(Exception):
                self.catch_up(self._pending[-1][0])

    def evaluation(self, step: int, values: dict[str, Any]) -> dict[str, float]:
        """Logs the figures of an evaluation after `step` updates, all of which are read.

        Returns:
            The figures without those that are no number; their tags are named on the terminal.
        """
        values, others = numbers(values)
        for tag in others.keys() - self._refused:
            self._refused.add(tag)
            kind = others[tag]
            self._say(f"warning: {tag} is of type {kind}, no number, and is not logged.")
        if self._log is not None:
            self._log.scalars(step, self._tokens, values)
            self._log.show_evaluation(step, values)
        return values

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

    def _say(self, text: str) -> None:
        if self._log is not None:
            self._log.say(text)

    def _line(self, step: int, metrics: Metrics) -> None:
        if self._log is None:
            return
        values = self._scalars(metrics) | self._rates(step)
        self._log.scalars(step, self._tokens, values)
        self._log.show(step, values, (self._plan.steps - step) * values["train/step_time"])

    def _scalars(self, metrics: Metrics) -> dict[str, float]:
        values = {
            "train/loss": float(metrics.loss),
            "train/learning_rate": float(metrics.learning_rate),
            "train/gradient_norm": float(metrics.gradient_norm),
        }
        if self._units.bytes_per_token is not None:
            values["train/bits_per_byte"] = values["train/loss"] / math.log(2) / self._units.bytes_per_token
        if self._plan.skip_nonfinite:
            values["train/skipped"] = float(metrics.skipped)
        for name in ("gradient_norm", "parameter_norm", "update_norm"):
            for kind, norm in getattr(metrics, f"{name}s").items():
                values[f"train/{name}/{kind}"] = float(norm)
        return values

    def _rates(self, step: int) -> dict[str, float]:
        window, self._window = self._window, _Window(step, self._tokens)
        seconds = self._window.start - window.start - window.excluded
        steps = step - window.step
        warning = self._watchdog.look(steps, seconds, window.waited)
        if warning is not None:
            self._say(warning)
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
