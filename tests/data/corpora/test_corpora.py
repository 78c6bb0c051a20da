"""If these fail, validation figures would be taken on text that was trained on, or on nothing."""

import shutil
import sysconfig

import pytest

from seqmodels.data.corpora import PythonSource, TextFiles, text_files
from seqmodels.data.corpora.corpus import content_key, validation_limit
from seqmodels.errors import InputError

DOCUMENTS = [b"text %d" % i for i in range(2000)]


def test_the_share_held_out_is_about_the_fraction():
    limit = validation_limit(lambda: iter(DOCUMENTS), 0.05, "", "")
    held_out = sum(content_key(document) < limit for document in DOCUMENTS)
    assert abs(held_out - 100) < 5 * 10


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("fraction", [0.001, 0.5, 0.999])
def test_neither_side_is_empty_in_a_small_corpus(count, fraction):
    for first in range(0, 200, count):
        documents = DOCUMENTS[first : first + count]
        limit = validation_limit(lambda documents=documents: iter(documents), fraction, "", "")
        held_out = sum(content_key(document) < limit for document in documents)
        assert 0 < held_out < count
        assert limit == validation_limit(lambda documents=documents: reversed(documents), fraction, "", "")


def test_what_cannot_be_parted_is_refused():
    with pytest.raises(InputError, match=r"single document.*: set this \(found 2 files\)"):
        validation_limit(lambda: iter([b"a", b"", b"a"]), 0.5, "2 files", "set this")
    with pytest.raises(InputError, match="no document of 2 files holds any text"):
        validation_limit(lambda: iter([b"", b""]), 0.5, "2 files", "")
    for fraction in (0, 1, -0.1):
        with pytest.raises(InputError, match="between 0 and 1"):
            validation_limit(lambda: iter(DOCUMENTS), fraction, "", "")


def test_python_source_is_text_without_tests_and_each_content_once():
    corpus = PythonSource()
    train, validation = list(corpus.documents("train")), list(corpus.documents("validation"))
    everything = train + validation
    assert len(set(everything)) == len(everything), "a document is there twice, or in both splits"
    size = sum(map(len, everything))
    assert size > 8_000_000
    assert 0.02 < sum(map(len, validation)) / size < 0.1
    assert not any(b"import unittest\nfrom test import support" in text for text in everything)
    assert all(text.decode() for text in everything)


def test_python_source_does_not_depend_on_where_python_is(tmp_path, monkeypatch):
    """A copy of part of the library elsewhere, with what a machine adds to it, gives the same fingerprint."""
    library, places = sysconfig.get_path("stdlib"), [tmp_path / "one", tmp_path / "two" / "three"]
    for place in places:
        shutil.copytree(f"{library}/json", place / "json", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(f"{library}/ast.py", place)
    shutil.copy(f"{library}/ast.py", places[1] / "copy_of_ast.py")
    for name in ("test/test_x.py", "site-packages/y.py", "_sysconfigdata_linux.py", "sitecustomize.py"):
        (places[1] / name).parent.mkdir(exist_ok=True)
        (places[1] / name).write_text("something else")
    found = []
    for place in places:
        monkeypatch.setattr(sysconfig, "get_path", lambda name, place=place: str(place))
        found.append((PythonSource().fingerprint, list(PythonSource().documents("train"))))
    assert found[0] == found[1]


@pytest.fixture
def files(tmp_path):
    """A folder of 20 files, two of them equal."""
    (tmp_path / "data").mkdir()
    for i in range(20):
        (tmp_path / "data" / f"{i:02d}.txt").write_bytes(DOCUMENTS[max(i, 1)])
    return tmp_path / "data"


def test_held_out_files_are_no_training_files(files):
    corpus = TextFiles(str(files), validation_fraction=0.3)
    train, validation = list(corpus.documents("train")), list(corpus.documents("validation"))
    assert len(train) + len(validation) == 20
    assert set(train).isdisjoint(validation)
    assert train and validation


def test_validation_of_its_own(files, tmp_path):
    (tmp_path / "held.txt").write_bytes(b"held out\nas lines\n")
    corpus = TextFiles(str(files), str(tmp_path / "held.txt"), document="line")
    assert list(corpus.documents("validation")) == [b"held out", b"as lines"]
    assert len(list(corpus.documents("train"))) == 20


def test_a_single_file_does_not_serve_twice(files, tmp_path):
    """One file in file mode; the same file named twice, also by another path; one file by lines."""
    one = str(files / "03.txt")
    with pytest.raises(InputError, match=r"single document.*TextFiles.validation.*found 1 file by .*03\.txt"):
        list(TextFiles(one).documents("train"))
    for other in (one, str(files / ".." / "data" / "0*.txt")):
        with pytest.raises(InputError, match=r"named by TextFiles\.train and TextFiles.validation both"):
            list(TextFiles(one, other).documents("train"))
    (tmp_path / "lines.txt").write_bytes(b"\n".join(DOCUMENTS[:40]))
    lines = TextFiles(str(tmp_path / "lines.txt"), document="line")
    assert list(lines.documents("train")) and list(lines.documents("validation"))


def test_a_missing_validation_file_is_refused_at_once(files):
    with pytest.raises(InputError, match=r"TextFiles.validation = 'nowhere\.txt': there is no such file"):
        next(TextFiles(str(files), "nowhere.txt").documents("train"))


def test_the_fingerprint_follows_content_and_settings(files, tmp_path):
    path = str(files)
    first = TextFiles(path).fingerprint
    assert first == TextFiles(path).fingerprint
    shutil.copytree(files, tmp_path / "copy")
    assert first == TextFiles(str(tmp_path / "copy")).fingerprint
    others = [
        TextFiles(path, document="line").fingerprint,
        TextFiles(path, validation_fraction=0.1).fingerprint,
        TextFiles(str(files / "0*.txt"), str(files / "1*.txt")).fingerprint,
    ]
    (tmp_path / "copy" / "07.txt").rename(tmp_path / "copy" / "07.jsonl")
    others.append(TextFiles(str(tmp_path / "copy")).fingerprint)
    (files / "07.txt").write_text("changed")
    others.append(TextFiles(path).fingerprint)
    assert len({first, *others}) == 6


@pytest.mark.parametrize("when", ["before it is read", "while it is read", "while it is hashed", "gone"])
def test_files_that_change_on_the_way_are_refused(files, monkeypatch, when):
    """Else tokens of the new content would be found under the hash of the old, run after run."""
    corpus, path = TextFiles(str(files)), files / "19.txt"

    def write():
        path.write_text("changed")

    if when == "while it is hashed":
        real = text_files.hash_files
        monkeypatch.setattr(text_files, "hash_files", lambda paths: (real(paths), write())[0])
        with pytest.raises(InputError, match=r"19\.txt changed while it was read: start again"):
            _ = corpus.fingerprint
        return
    _ = corpus.fingerprint
    documents = corpus.documents("train")
    if when == "while it is read":
        next(documents)
    path.unlink() if when == "gone" else write()
    message = r"cannot read .*19\.txt: No such file" if when == "gone" else r"19\.txt changed while"
    with pytest.raises(InputError, match=message):
        list(documents)


def test_the_same_text_has_the_same_bytes(tmp_path):
    """The rule by which training and validation are apart: another line end makes another document."""
    texts = [b"one\ntext %d\n" % i for i in range(40)]
    for i, text in enumerate(texts):
        (tmp_path / f"{i}.txt").write_bytes(text)
        (tmp_path / f"{i} copy.txt").write_bytes(text)
        (tmp_path / f"{i} dos.txt").write_bytes(text.replace(b"\n", b"\r\n"))
    for unit in ("file", "line"):
        corpus = TextFiles(str(tmp_path), validation_fraction=0.5, document=unit)
        train, validation = list(corpus.documents("train")), list(corpus.documents("validation"))
        assert len(train) + len(validation) == (120 if unit == "file" else 240)
        assert set(train).isdisjoint(validation)
        if unit == "file":
            sides = [text.replace(b"\n", b"\r\n") in train for text in texts if text in train]
            assert True in sides and False in sides
