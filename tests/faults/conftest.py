"""How the processes of the tests of faults start."""

import pytest

from seqmodels.sweep import processes
from tests.small_run import CACHE


@pytest.fixture(scope="module")
def start():
    """Programs are shared by all tests; a process is forked from one that has imported the package."""
    processes.warm_up()
    return {"programs": CACHE / "xla", "context": processes.context()}
