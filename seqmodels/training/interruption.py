"""SIGTERM and SIGINT: save and stop where there is something to save, and stop at once where there is not."""

import os
import signal
import sys
import threading

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Interruption:
    """Watches for signals; `requested` is the number of the first one, or None.

    Until `something_to_save` is set, a signal ends the process at once, even inside a compilation that lasts
    minutes: C code wakes a thread of ours, which needs no Python code to run in the main thread. A second
    signal ends the process at once too, for a user who does not want to wait for the save.
    """

    def __init__(self):
        self.requested: int | None = None
        self.something_to_save = False

    def __enter__(self) -> "Interruption":
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._write_end, False)
        self._previous_wakeup = signal.set_wakeup_fd(self._write_end, warn_on_full_buffer=False)
        # Any Python handler will do: it only keeps the default action and KeyboardInterrupt away.
        self._previous = {number: signal.signal(number, lambda *_: None) for number in SIGNALS}
        self._thread = threading.Thread(target=self._watch, name="interruption", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._previous_wakeup)
        os.close(self._write_end)
        self._thread.join()
        os.close(self._read_end)

    def _watch(self) -> None:
        while received := os.read(self._read_end, 1):
            number = received[0]
            if number not in SIGNALS:
                continue
            name = signal.Signals(number).name
            if self.requested is None and self.something_to_save:
                self.requested = number
                _tell(f"{name}: saving after this step; a second signal stops at once.")
                continue
            where = "while saving" if self.requested else "before the first step: there is nothing to save"
            _tell(f"interrupted by {name} {where}.")
            os._exit(128 + number)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
