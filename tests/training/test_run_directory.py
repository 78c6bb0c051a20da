"""Run directories: what may be used."""

import os
from pathlib import Path

import pytest

from seqmodels.errors import InputError
from seqmodels.training.lock import Lock
from seqmodels.training.run_directory import RunDirectory, check_free
from tests.training.saved import no_file_longer_than


def test_a_new_or_an_empty_directory_is_free(tmp_path):
    check_free(tmp_path / "new")
    check_free(tmp_path)


def test_a_directory_of_other_files_or_a_file_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(InputError, match=r"holds other files \(thesis\.tex\)"):
        check_free(tmp_path)
    with pytest.raises(InputError, match="is a file"):
        check_free(tmp_path / "thesis.tex")


def test_checkpoints_of_a_run_whose_config_is_gone_are_not_written_over(tmp_path):
    """Found at the start, not when the new run reaches the step of one of them."""
    (tmp_path / "checkpoints" / "6").mkdir(parents=True)
    with pytest.raises(InputError, match=r"holds other files \(checkpoints\) and no run"):
        check_free(tmp_path)


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


def test_a_path_that_is_not_utf_8_is_refused_before_the_first_checkpoint_is_due(tmp_path, monkeypatch):
    """What writes checkpoints cannot take it, and the updates up to there would be lost."""
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    for use in (check_free, RunDirectory):
        with pytest.raises(InputError, match="should be UTF-8 text; name another"):
            use(path)
    path.mkdir()
    monkeypatch.chdir(path)
    with pytest.raises(InputError, match="should be UTF-8 text"):
        check_free("run")


def test_a_file_that_cannot_be_written_is_named_and_the_old_one_stays(tmp_path):
    (tmp_path / "config.gin").write_text("old")
    run = RunDirectory(tmp_path)
    with (
        no_file_longer_than(100),
        pytest.raises(InputError, match=r"config\.gin cannot be written: "),
    ):
        run.write("config.gin", "new" * 100)
    assert run.config_text == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["config.gin"]


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
