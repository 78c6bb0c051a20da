"""One process at a time writes a directory, and one that has ended keeps nobody out."""

import errno
import fcntl
import os
import subprocess
import sys
import time

import pytest

from seqmodels.errors import InputError
from seqmodels.training import lock
from seqmodels.training.lock import Lock

HOLD = """
import pathlib, sys
from seqmodels.training.lock import Lock
lock = Lock(pathlib.Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_two_processes_cannot_hold_one_directory_and_a_dead_one_holds_nothing(tmp_path, capsys):
    """Who is refused learns who holds it, where, and since when."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as holder:
        assert holder.stdout.readline() == "held\n"
        began = time.time() - 200
        os.utime(tmp_path / lock.FILE, (began, began))
        clock = time.strftime("%H:%M", time.localtime(began))
        who = f"process {holder.pid} on {os.uname().nodename}, since {clock} (3 minutes); two runs cannot"
        with pytest.raises(InputError) as refusal:
            Lock(tmp_path)
        assert f"--run-dir {tmp_path} is in use by {who}" in str(refusal.value)
        holder.kill()
    with Lock(tmp_path), pytest.raises(InputError, match=rf"process {os.getpid()} on .* \(\d seconds?\)"):
        Lock(tmp_path)
    assert capsys.readouterr().out == "", "a killed process of this machine is known to be gone"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "(0 seconds)"),
        (1, "(1 second)"),
        (119, "(1 minute)"),
        (7300, "(2 hours)"),
        (90000, "(1 day)"),
        (10**6, "(11 days)"),
    ],
)
def test_the_age_of_a_lock_is_told_in_one_unit(seconds, words):
    told = lock._since(1e9, 1e9 + seconds)
    assert told.endswith(words)
    assert ("2001-09-" in told) == (seconds > 86400), "the day is told where it is another"


def test_what_another_machine_did_not_release_is_taken_over_with_a_sentence(tmp_path):
    """On a file system whose locks bind one machine it may still run: that must not pass in silence."""
    (tmp_path / lock.FILE).write_text("process 5 on elsewhere\n")
    said = []
    with Lock(tmp_path, said.append):
        assert len(said) == 1 and "not released by process 5 on elsewhere" in said[0]
    with Lock(tmp_path, said.append):
        assert len(said) == 1, "it was released since"


def test_a_file_system_without_locks_is_used_with_a_sentence(tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", flock)
    said = []
    with Lock(tmp_path, said.append):
        assert len(said) == 1 and "there are no locks (Function not implemented)" in said[0]


def test_a_directory_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be written: Not a directory"):
        Lock(tmp_path / "file" / "run")
