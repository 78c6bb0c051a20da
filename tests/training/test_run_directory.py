"""Run directories: what may be used, and by one process at a time."""

import subprocess
import sys

import pytest

from seqmodels.errors import InputError
from seqmodels.training.run_directory import Lock, RunDirectory, check_free


def test_a_new_or_an_empty_directory_is_free(tmp_path):
    check_free(tmp_path / "new")
    check_free(tmp_path)


def test_a_directory_of_other_files_or_a_file_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(InputError, match=r"holds other files \(thesis\.tex\)"):
        check_free(tmp_path)
    with pytest.raises(InputError, match="is a file"):
        check_free(tmp_path / "thesis.tex")


def test_a_config_file_alone_is_no_run(tmp_path):
    """A user's own config.gin in the directory would be overwritten."""
    (tmp_path / "config.gin").write_text("# mine")
    with pytest.raises(InputError, match=r"holds other files \(config\.gin\)"):
        check_free(tmp_path)
    Lock(tmp_path).release()  # as every run has left it, however early it was killed
    check_free(tmp_path)


def test_what_is_no_run_cannot_be_opened(tmp_path):
    with pytest.raises(InputError, match="there is no run directory"):
        RunDirectory(tmp_path / "none")
    with pytest.raises(InputError, match=r"has no config\.gin"):
        RunDirectory(tmp_path)


def test_two_processes_cannot_hold_one_directory_and_a_dead_one_holds_nothing(tmp_path):
    code = "import sys, pathlib; from seqmodels.training.run_directory import Lock\n"
    code += "lock = Lock(pathlib.Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(InputError, match=f"in use by process {holder.pid}"):
        Lock(tmp_path)
    holder.kill()
    holder.communicate()
    with Lock(tmp_path):
        pass


def test_files_are_replaced_whole(tmp_path):
    (tmp_path / "config.gin").write_text("old")
    run = RunDirectory(tmp_path)
    run.write("config.gin", "new")
    assert run.config_text == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["config.gin"]


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[]", b'{"seed": 0}'])
def test_a_damaged_record_is_refused_by_name(tmp_path, content):
    (tmp_path / "config.gin").touch()
    with pytest.raises(InputError, match=r"run\.json cannot be read: No such file"):
        RunDirectory(tmp_path).information()
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(InputError, match=r"run\.json is damaged"):
        RunDirectory(tmp_path).information()
