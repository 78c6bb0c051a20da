"""Turns what the steps report into what a run records: metrics.jsonl, TensorBoard, the terminal."""

import contextlib
import math
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax

from seqmodels.errors import CheckpointWriteError, NonFiniteError
from seqmodels.training.events import EventFile
from seqmodels.training.metrics_file import MetricsFile
from seqmodels.training.step import Metrics, count_tokens
from seqmodels.training.terminal import Terminal


class Units(NamedTuple):
    """What turns a step's figures into ones that compare across runs.

    Attributes:
        flops_per_token: of one training step, forward and backward.
        ceiling_flops: that the devices can do a second.
        bytes_per_token: of the training text; None where the data is no text.
    """

    flops_per_token: float
    ceiling_flops: float
    bytes_per_token: float | None


class Recorder:
    """Takes the metrics of every step, fetches them once every `log_every` steps, and writes them.

    Metrics stay on the device until they are fetched: the loop reads step n after it has dispatched step n + 1, so
    that the device never waits for the host.
    """

    def __init__(
        self, file: MetricsFile, events: EventFile, terminal: Terminal, units: Units, *, log_every: int, steps: int
    ):
        self._file, self._events, self._terminal, self._units = file, events, terminal, units
        self._log_every, self._steps = log_every, steps
        self._pending: deque[tuple[int, Metrics]] = deque()
        self._logged_step: int | None = None
        self._tokens = self._logged_tokens = 0
        self._waited = self._excluded = 0.0
        self._window_start = time.perf_counter()

    def start(self, step: int, tokens: int) -> None:
        """Begins at a step, with the tokens trained on so far; compilation lies behind."""
        self._logged_step, self._tokens, self._logged_tokens = step, tokens, tokens
        self._window_start = time.perf_counter()

    def add(self, step: int, metrics: Metrics) -> None:
        """Takes the metrics of update `step` as they are on the device."""
        self._pending.append((step, metrics))

    def read(self, step: int) -> None:
        """Waits for update `step`; fetches and writes what is pending up to it when a line is due.

        Raises:
            NonFiniteError: the loss or the gradient of an update up to `step` is not finite.
        """
        if self._is_due(step):
            self.catch_up(step)
        elif len(self._pending) > 1:
            jax.block_until_ready(self._pending[-2][1].loss)

    def catch_up(self, step: int) -> None:
        """Fetches all metrics up to `step`, refuses those that are not finite, and writes the line that is due."""
        ready = [self._pending.popleft() for _ in range(len(self._pending)) if self._pending[0][0] <= step]
        if not ready:
            return
        fetched = jax.device_get([metrics for _, metrics in ready])
        for (at, _), metrics in zip(ready, fetched, strict=True):
            _check_finite(at, metrics)
        self._tokens = count_tokens(fetched[-1].tokens)
        if self._is_due(step):
            self._log(step, fetched[-1])

    def evaluation(self, step: int, values: dict[str, float]) -> None:
        """Writes the figures of an evaluation after `step` updates."""
        now = time.time()
        with _write_errors(step):
            self._file.write(step, self._tokens, now, values)
            self._events.scalars(step, self._tokens, now, values)

    def text(self, tag: str, text: str, step: int) -> None:
        """Writes a text to TensorBoard."""
        with _write_errors(step):
            self._events.text(tag, text, step)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Time spent inside is a wait for data."""
        start = time.perf_counter()
        yield
        self._waited += time.perf_counter() - start

    @contextlib.contextmanager
    def excluded(self) -> Iterator[None]:
        """Time spent inside (saving, evaluating) is no part of the step time and the token rate."""
        start = time.perf_counter()
        yield
        self._excluded += time.perf_counter() - start

    def close(self) -> None:
        """Flushes and closes all outputs."""
        self._terminal.close()
        self._events.close()
        self._file.close()

    def _is_due(self, step: int) -> bool:
        return step % self._log_every == 0 or step == self._steps

    def _log(self, step: int, metrics: Metrics) -> None:
        values = _scalars(metrics) | self._rates(step)
        if self._units.bytes_per_token is not None:
            values["train/bits_per_byte"] = values["train/loss"] / math.log(2) / self._units.bytes_per_token
        now = time.time()
        with _write_errors(step):
            self._file.write(step, self._tokens, now, values)
            self._events.scalars(step, self._tokens, now, values)
        self._terminal.show(step, values, (self._steps - step) * values["train/step_time"])

    def _rates(self, step: int) -> dict[str, float]:
        now = time.perf_counter()
        seconds = now - self._window_start - self._excluded
        steps = step - self._logged_step
        tokens_per_second = (self._tokens - self._logged_tokens) / seconds
        rates = {
            "train/tokens_per_second": tokens_per_second,
            "train/step_time": seconds / steps,
            "train/data_wait": self._waited / steps,
            "train/mfu": tokens_per_second * self._units.flops_per_token / self._units.ceiling_flops,
        }
        self._window_start, self._excluded, self._waited = now, 0.0, 0.0
        self._logged_step, self._logged_tokens = step, self._tokens
        return rates


def _scalars(metrics: Metrics) -> dict[str, float]:
    values = {
        "train/loss": float(metrics.loss),
        "train/learning_rate": float(metrics.learning_rate),
        "train/gradient_norm": float(metrics.gradient_norm),
    }
    for name in ("gradient_norm", "parameter_norm", "update_norm"):
        for kind, norm in getattr(metrics, f"{name}s").items():
            values[f"train/{name}/{kind}"] = float(norm)
    return values


def _check_finite(step: int, metrics: Metrics) -> None:
    if math.isfinite(metrics.loss) and math.isfinite(metrics.gradient_norm):
        return

    def listed(norms: dict[str, Any]) -> str:
        return ", ".join(f"{kind} {norm:.3g}" for kind, norm in norms.items())

    raise NonFiniteError(
        f"update {step} has a loss of {metrics.loss:.4g} and a gradient of norm {metrics.gradient_norm:.4g}. Gradient "
        f"norms: {listed(metrics.gradient_norms)}; parameter norms after it: {listed(metrics.parameter_norms)}. "
        "No later checkpoint was written; a lower learning rate or clip_norm may help."
    )


@contextlib.contextmanager
def _write_errors(step: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CheckpointWriteError(f"the log of step {step} was not written: {error.strerror}") from error
