"""If these fail, a checkpoint would hold the wrong position, or a fault in the data would hang the run."""

import threading
import time

import pytest

from seqmodels.data.prefetch import Prefetch


class Counting:
    """A stream of its own position; fails where it is told to."""

    def __init__(self, fails_at=None, seconds=0.0):
        self._at, self._fails_at, self._seconds = 0, fails_at, seconds

    def __next__(self):
        time.sleep(self._seconds)
        if self._at == self._fails_at:
            raise ValueError(f"row {self._at} is damaged")
        self._at += 1
        return {"tokens": self._at}

    def state(self):
        return {"row": self._at}


def test_the_state_is_that_of_the_batch_handed_out():
    with Prefetch(Counting(), depth=3) as batches:
        for expected in range(1, 20):
            assert next(batches) == ({"tokens": expected}, {"row": expected})


def test_an_exception_comes_where_its_batch_would_have_come():
    with Prefetch(Counting(fails_at=2)) as batches:
        next(batches), next(batches)
        for _ in range(2):
            with pytest.raises(ValueError, match="row 2 is damaged"):
                next(batches)


def test_close_ends_the_thread_whatever_it_is_doing():
    for seconds, taken in ((0.0, 0), (0.0, 5), (0.05, 1)):
        batches = Prefetch(Counting(seconds=seconds))
        for _ in range(taken):
            next(batches)
        batches.close()
        batches.close()
        assert not [thread for thread in threading.enumerate() if thread.name == "prefetch"]
    with pytest.raises(RuntimeError, match="closed"):
        next(batches)


def test_a_batch_is_ready_once_it_is_made():
    with Prefetch(Counting(seconds=0.2)) as batches:
        assert not batches.ready
        next(batches)
        time.sleep(0.5)
        assert batches.ready


def test_time_spent_waiting_is_counted():
    with Prefetch(Counting(seconds=0.05)) as batches:
        for _ in range(4):
            next(batches)
        assert batches.waited > 0.1
    with Prefetch(Counting()) as batches:
        time.sleep(0.3)
        next(batches)
        assert batches.waited < 0.2
