"""If these fail, a run trains on other files than were named, or says too late that there are none."""

import pytest

from seqmodels.data.corpora.local_files import find_files, hash_files
from seqmodels.errors import InputError


@pytest.fixture
def folder(tmp_path):
    for name in ("b.txt", "a.jsonl", "sub/c.parquet", "sub/d.txt.gz", "notes.md", "e.TXT.zst"):
        path = tmp_path / "data" / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(name.encode())
    return tmp_path / "data"


def names(paths, folder):
    return [path.relative_to(folder).as_posix() for path in paths]


def test_paths_folders_and_patterns(folder):
    found = names(find_files(str(folder), "x"), folder)
    assert found == ["a.jsonl", "b.txt", "e.TXT.zst", "sub/c.parquet", "sub/d.txt.gz"]
    assert names(find_files(str(folder / "**/*.md"), "x"), folder) == ["notes.md"]
    assert names(find_files([str(folder / "b.txt"), str(folder / "?.*")], "x"), folder) == [
        "b.txt",
        "a.jsonl",
        "e.TXT.zst",
    ]


def test_a_name_with_pattern_letters_in_it(tmp_path):
    (tmp_path / "part[1].txt").write_text("x")
    assert find_files(str(tmp_path / "part[1].txt"), "x") == [tmp_path / "part[1].txt"]


def test_what_names_nothing_is_refused_by_name(folder, tmp_path):
    with pytest.raises(InputError, match=r"TextFiles.train = '.*/none\.txt': there is no such file"):
        find_files(str(folder / "none.txt"), "TextFiles.train")
    with pytest.raises(InputError, match=r"TextFiles.train = '.*/\*\.csv' matches no file \(looked from "):
        find_files(str(folder / "*.csv"), "TextFiles.train")
    (tmp_path / "other").mkdir()
    with pytest.raises(InputError, match=r"is a folder without .*\.txt .* files \(it holds no file\)"):
        find_files(str(tmp_path / "other"), "x")
    (tmp_path / "other" / "a.md").touch()
    with pytest.raises(InputError, match=r"it holds 1 \.md\): name others by a pattern, as in '.*\*\.md'"):
        find_files(str(tmp_path / "other"), "x")


def test_the_hash_is_of_content_and_order(folder, tmp_path):
    files = find_files(str(folder), "x")
    moved = tmp_path / "moved.txt"
    moved.write_bytes(files[0].read_bytes())
    assert hash_files(files) == hash_files([moved, *files[1:]])
    assert hash_files(files) != hash_files(files[::-1])
    moved.write_bytes(b"changed")
    assert hash_files(files) != hash_files([moved, *files[1:]])


def test_a_file_that_cannot_be_read_is_refused_by_name(tmp_path):
    """Named by a pattern, and gone or forbidden when it is hashed."""
    with pytest.raises(InputError, match=r"cannot read .*gone\.txt: No such file"):
        hash_files([tmp_path / "gone.txt"])
