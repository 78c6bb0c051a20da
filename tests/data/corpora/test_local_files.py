"""If these fail, a run trains on other files than were named, or says too late that there are none."""

import os
from glob import glob
from pathlib import Path

import pytest

from seqmodels.data.corpora.local_files import content_suffix, find_files, hash_files
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
    memory = Path("/proc/self/mem")
    if memory.exists():
        with pytest.raises(InputError, match=r"cannot read /proc/self/mem: Input/output error"):
            hash_files([memory])


PATTERNS = [
    "*",
    "**",
    "**/*.txt",
    "sub/**",
    "*/d*",
    "[ab].*",
    "**/sub/*",
    "s*/**/c.*",
    "sub/../b.txt",
]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("absolute", [False, True])
def test_patterns_match_what_python_matches(folder, pattern, absolute, monkeypatch):
    monkeypatch.chdir(folder)
    pattern = str(folder / pattern) if absolute else pattern
    expected = {Path(name).resolve() for name in glob(pattern, recursive=True) if os.path.isfile(name)}
    assert {path.resolve() for path in find_files(pattern, "x")} == expected


def test_links_are_followed_and_none_in_circles(folder, tmp_path):
    """Two links to the top would give 2**40 paths to every file, and Python's own search takes them all."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "f.txt").write_text("f")
    (folder / "linked").symlink_to(tmp_path / "elsewhere")
    (folder / "up").symlink_to(folder)
    (folder / "sub" / "up").symlink_to(folder)
    (folder / "again.txt").symlink_to(folder / "b.txt")
    for named in (folder, folder / "**" / "*.txt", folder / "up" / "up" / "**"):
        found = find_files(str(named), "x")
        assert "f.txt" in [path.name for path in found]
        assert len({path.resolve() for path in found}) == len(found), "a file is there twice"
    assert len(find_files([str(folder), str(folder / "up" / "b.txt")], "x")) == 6


def test_hidden_names_are_left_out_unless_they_are_named(folder):
    for name in (".ipynb_checkpoints/b.txt", "._b.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("x")
    assert len(find_files(str(folder), "x")) == len(find_files(str(folder / "**"), "x")) - 1 == 5
    assert names(find_files(str(folder / "._*"), "x"), folder) == ["._b.txt"]
    assert names(find_files(str(folder / ".ipynb_checkpoints"), "x"), folder) == [".ipynb_checkpoints/b.txt"]


def test_a_folder_named_like_a_file_is_a_folder(folder):
    (folder / "b.txt").unlink()
    (folder / "b.txt").mkdir()
    (folder / "b.txt" / "g.txt").write_text("g")
    assert "b.txt/g.txt" in names(find_files(str(folder), "x"), folder)
    assert names(find_files(str(folder / "b.txt"), "x"), folder) == ["b.txt/g.txt"]


@pytest.mark.parametrize("named", ["", "b.txt", "*.txt", "**/*.txt"])
def test_what_is_no_file_is_not_left_out_in_silence(folder, named):
    """A data set on a disk that is not there, or a pipe, at which a run would wait for ever."""
    (folder / "b.txt").unlink()
    (folder / "b.txt").symlink_to(folder / "nowhere")
    with pytest.raises(InputError, match=r"TextFiles.train = .*b\.txt is a link to nothing"):
        find_files(str(folder / named), "TextFiles.train")
    (folder / "b.txt").unlink()
    os.mkfifo(folder / "b.txt")
    with pytest.raises(InputError, match=r"b\.txt is no regular file"):
        find_files(str(folder / named), "TextFiles.train")


@pytest.mark.parametrize("named", ["", "**/*.txt", "*/*.gz"])
def test_a_folder_that_cannot_be_listed_is_refused(folder, named, monkeypatch):
    """Python's own search passes over it, and trains on the rest."""
    listdir = os.listdir

    def forbidden(path):
        if Path(path).name == "sub":
            raise PermissionError(13, "Permission denied", str(path))
        return listdir(path)

    monkeypatch.setattr(os, "listdir", forbidden)
    with pytest.raises(InputError, match=r"TextFiles.train = .*/sub: Permission denied"):
        find_files(str(folder / named), "TextFiles.train")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("", r"TextFiles.train = '' names no file"),
        (" ", r"names no file"),
        ("x" * 300, r"File name too long"),
        ("~nobody-of-this-name/x.txt", r"there is no such file"),
        ("a\0b", r"there is no such file"),
        ("none/**/*.txt", r"matches no file"),
    ],
)
def test_names_that_cannot_be_are_refused(pattern, message):
    with pytest.raises(InputError, match=message):
        find_files(pattern, "TextFiles.train")


def test_names_of_any_bytes(tmp_path):
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\n\xe9.txt"))
    path.write_text("x")
    assert find_files(str(tmp_path), "x") == find_files(str(path), "x") == [path]
    assert hash_files([path])


def test_suffixes_in_capitals():
    assert content_suffix(Path("A.TXT.GZ")) == ".txt"
    assert content_suffix(Path("a.b.JSONL")) == ".jsonl"
