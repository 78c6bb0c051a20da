"""Batches made ahead of time in a thread, each with the position of the stream after it."""

import queue
import threading
import time

from seqmodels.data.packing import Batch


class Prefetch:
    """Hands out `(batch, state)` from a stream; `state` is the stream's position after exactly that batch.

    The stream itself runs ahead of what has been consumed: a checkpoint must hold the state handed out here.
    An exception in the stream is raised where its batch would have come.

    Attributes:
        waited: seconds that `next` has spent waiting for batches.
    """

    def __init__(self, stream, depth: int = 2):
        """stream: from here on belongs to the thread. depth: batches kept ready."""
        self.waited = 0.0
        self._stream = stream
        self._ready: queue.Queue = queue.Queue(depth)
        self._closed = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="prefetch", daemon=True)
        self._thread.start()

    @property
    def ready(self) -> bool:
        """Whether a batch is there, so that `next` does not wait."""
        return not self._ready.empty()

    def __iter__(self) -> "Prefetch":
        return self

    def __next__(self) -> tuple[Batch, dict]:
        if self._closed.is_set():
            raise RuntimeError("next() on a Prefetch that is closed")
        if self._error is not None:
            raise self._error
        began = time.perf_counter()
        batch, state, error = self._ready.get()
        self.waited += time.perf_counter() - began
        if error is not None:
            self._error = error
            raise error
        return batch, state

    def close(self) -> None:
        """Ends the thread and drops what it had made ready."""
        self._closed.set()
        while self._thread.is_alive():
            try:
                self._ready.get(timeout=0.01)
            except queue.Empty:
                continue

    def __enter__(self) -> "Prefetch":
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                batch = next(self._stream)
                item = batch, self._stream.state(), None
            except BaseException as error:  # handed to the consumer, StopIteration included
                item = None, None, error
            self._ready.put(item)
            if item[2] is not None:
                return
