"""What a command prints: a reader that goes ends no run; no disk and no encoding gives a traceback."""

import io
import os
import subprocess
import sys

import pytest

from seqmodels.errors import exit_status
from seqmodels.training.checkpoints import steps
from tests.commands import unread
from tests.small_run import ROOT, environment, write_config


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_a_command_goes_on_where_nobody_reads(monkeypatch, name):
    """Training lost, because `head` had its lines or Ctrl-C ended `tee` too."""
    done = False
    with unread(monkeypatch, name), exit_status():
        for _ in range(3):
            print("a line", file=getattr(sys, name), flush=True)
        done = True
    assert done


@pytest.mark.parametrize("flush", [True, False])
def test_a_full_disk_behind_standard_output_is_one_sentence(monkeypatch, capsys, flush):
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    with open("/dev/full", "w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(SystemExit) as end, exit_status():
            print("a line", flush=flush)
        monkeypatch.undo()
    assert end.value.code == 2
    assert capsys.readouterr().err == ("error: standard output cannot be written: No space left on device.\n")


def test_what_an_encoding_lacks_is_written_with_a_backslash(monkeypatch):
    """A generated text, or a path, must not end in a traceback for the terminal it is shown on."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    with exit_status():
        print("é al", "runs/\udcff")
    assert written.getvalue() == b"\\xe9 al runs/\\udcff\n"


def test_a_stream_that_was_closed_from_the_beginning_takes_everything(monkeypatch):
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    with pytest.raises(SystemExit) as end, exit_status():
        sys.stdout.write("a line")
        raise KeyboardInterrupt
    assert end.value.code == 130


@pytest.mark.slow
def test_a_run_whose_reader_has_gone_trains_to_its_end(tmp_path):
    command = [sys.executable, ROOT / "train.py", write_config(tmp_path), "--run-dir", tmp_path / "r"]
    with subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as training:
        assert training.stdout.readline()
        training.stdout.close()
        assert training.wait(timeout=300) == 0, training.stderr.read()
    assert steps(tmp_path / "r" / "checkpoints")[-1] == 6
