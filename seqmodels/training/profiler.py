"""A trace of a few updates for TensorBoard's profile tab."""

from pathlib import Path

import jax


class Profiler:
    """Traces the updates `first` to `last`, both included; does nothing where `updates` is None."""

    def __init__(self, updates: tuple[int, int] | None, directory: Path):
        self._first, self._last = updates or (0, 0)
        self._directory = directory
        self._tracing = False

    def before(self, update: int) -> None:
        """Starts or stops the trace, as is due before an update."""
        if update == self._first:
            jax.profiler.start_trace(self._directory)
            self._tracing = True
        elif update == self._last + 1:
            self.close()

    def close(self) -> None:
        """Ends a trace that is still running."""
        if self._tracing:
            jax.profiler.stop_trace()
            self._tracing = False
