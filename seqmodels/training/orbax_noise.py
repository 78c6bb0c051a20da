"""Keeps off the terminal what orbax prints beside what it raises: tracebacks, where a sentence reports."""

import contextlib
import gc
import logging
import sys
import warnings
from collections.abc import Iterator
from typing import Any


def silence() -> None:
    """For the whole process: its log, and writes that end after another write of the same save has failed."""
    logging.getLogger("absl").setLevel(logging.CRITICAL)
    hook = sys.unraisablehook

    def without_closed_loops(unraisable: Any) -> None:
        if str(unraisable.exc_value) != "Event loop is closed":
            hook(unraisable)

    sys.unraisablehook = without_closed_loops


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """While it reads: a read that fails leaves tasks behind, which print theirs when they are collected."""
    tasks = logging.getLogger("asyncio")
    disabled, hook = tasks.disabled, sys.unraisablehook
    tasks.disabled, sys.unraisablehook = True, lambda _: None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            gc.collect()
            tasks.disabled, sys.unraisablehook = disabled, hook
