"""If these fail, a data set of the `datasets` library is read otherwise than it is, or loses its place."""

import gzip
import json
import os
import re

import datasets
import pytest

from seqmodels.data.corpora import HuggingFace, hugging_face
from seqmodels.data.corpora.hugging_face_source import load
from seqmodels.errors import InputError


@pytest.fixture(autouse=True)
def quiet(tmp_path, monkeypatch):
    """The library's own cache in the test's folder, its bars off, and no network."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "hf"))
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    datasets.disable_progress_bars()


TEXTS = [f"document {i} with Ö" for i in range(300)]


@pytest.fixture
def files(tmp_path):
    """The texts as JSON lines, Parquet (two files), and a folder of `save_to_disk` with two splits."""
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text, "n": 1}) + "\n" for text in TEXTS))
    table = datasets.Dataset.from_dict({"text": TEXTS, "n": [1] * 300})
    table.select(range(150)).to_parquet(tmp_path / "a0.parquet")
    table.select(range(150, 300)).to_parquet(tmp_path / "a1.parquet")
    held = datasets.Dataset.from_dict({"text": [*TEXTS[:10], "held out", None, ""], "n": [1] * 13})
    datasets.DatasetDict(train=table, test=held).save_to_disk(tmp_path / "saved")
    return tmp_path


def texts(documents):
    return [document.decode() for document in documents]


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize(
    ("path", "data_files"), [("json", "a.jsonl"), ("parquet", "a?.parquet"), ("saved", None)]
)
def test_local_data_is_read_whole_and_parted_by_content(files, path, data_files, streaming):
    where = str(files / path) if data_files is None else path
    data_files = data_files and str(files / data_files)
    corpus = HuggingFace(where, data_files=data_files, validation_fraction=0.2, streaming=streaming)
    train, validation = texts(corpus.documents("train")), texts(corpus.documents("validation"))
    assert sorted(train + validation) == sorted(TEXTS)
    assert 30 < len(validation) < 90
    assert train == [text for text in TEXTS if text in set(train)], "the order changed"
    again = HuggingFace(where, data_files=data_files, validation_fraction=0.2, streaming=streaming)
    assert again.fingerprint == corpus.fingerprint


@pytest.mark.parametrize("streaming", [False, True])
def test_a_validation_split_of_its_own(files, streaming):
    corpus = HuggingFace(str(files / "saved"), validation_split="test", streaming=streaming)
    held_out = texts(corpus.documents("validation"))
    assert held_out[:11] == [*TEXTS[:10], "held out"]
    train = texts(corpus.documents("train"))
    # Of a text in both, the token store takes one out of validation, and a stream one out of training.
    assert train == (TEXTS[10:] if streaming else TEXTS)


def test_a_stream_goes_on_exactly_where_it_stopped(files):
    """12 documents and the borders of files: nothing is lost, repeated, or skipped by a chunk read ahead."""

    def stream():
        return HuggingFace("parquet", data_files=str(files / "a?.parquet"), streaming=True).stream()

    straight = stream()
    documents = list(straight)
    for stop in (0, 1, 2, 11, 12, 140, 200, len(documents) - 1, len(documents)):
        first = stream()
        for _ in range(stop):
            next(first)
        second = stream()
        second.restore(json.loads(json.dumps(first.state())))
        assert list(second) == documents[stop:]
    straight.rewind()
    assert list(straight) == documents, "the second pass is another than the first"


def test_a_stream_may_stop_again_before_it_has_read(files):
    """The library takes over a position when it reads: asked before, it would name the beginning."""

    def stream():
        return HuggingFace("parquet", data_files=str(files / "a?.parquet"), streaming=True).stream()

    documents = list(stream())
    for stop in (3, 12, 140, 151, len(documents) - 1):
        for more in (0, 1, 13):
            first, second, third = stream(), stream(), stream()
            read = sum(1 for _, _ in zip(range(stop), first, strict=False))
            second.restore(json.loads(json.dumps(first.state())))
            read += sum(1 for _, _ in zip(range(more), second, strict=False))
            third.restore(json.loads(json.dumps(second.state())))
            assert list(third) == documents[read:]


def test_at_most_so_many_documents_are_kept_for_validation(files):
    corpus = HuggingFace(
        str(files / "saved"), validation_fraction=0.2, streaming=True, validation_documents=7
    )
    assert len(list(corpus.documents("validation"))) == 7


def test_the_fingerprint_follows_content_and_settings(files, tmp_path):
    path = str(files / "saved")
    first = HuggingFace(path, validation_split="test").fingerprint
    others = [
        HuggingFace(path).fingerprint,
        HuggingFace(path, validation_split="test", streaming=True).fingerprint,
    ]
    changed = datasets.Dataset.from_dict({"text": [*TEXTS[:-1], "other"]})
    datasets.DatasetDict(train=changed, test=datasets.load_from_disk(path)["test"]).save_to_disk(
        tmp_path / "changed"
    )
    others.append(HuggingFace(str(tmp_path / "changed"), validation_split="test").fingerprint)
    assert len({first, *others}) == 4


def json_lines(path, texts):
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))


@pytest.mark.parametrize("changed", ["train", "validation"])
def test_a_change_far_into_local_files_is_seen_when_streaming(tmp_path, changed):
    """The store of validation would keep the old text, and a run go on with other data than it began with."""

    def fingerprint(**texts):
        splits = {split: datasets.Dataset.from_dict({"text": found}) for split, found in texts.items()}
        datasets.DatasetDict(splits).save_to_disk(tmp_path / "saved")
        return HuggingFace(str(tmp_path / "saved"), validation_split="validation", streaming=True).fingerprint

    texts = {split: [f"{split} {i}" for i in range(300)] for split in ("train", "validation")}
    first = fingerprint(**texts)
    assert fingerprint(**texts) == first
    assert fingerprint(**texts | {changed: [*texts[changed][:-1], "other"]}) != first


def test_elsewhere_every_document_kept_for_validation_counts(files, monkeypatch):
    """Files that are not on this machine cannot be hashed, but what the store holds is read for it."""
    monkeypatch.setattr(hugging_face, "load", lambda *settings: load(*settings)._replace(files=None))

    def fingerprint(texts):
        json_lines(files / "b.jsonl", texts)
        corpus = HuggingFace(
            "json", data_files=str(files / "b.jsonl"), validation_fraction=0.2, streaming=True
        )
        return corpus.fingerprint, list(corpus.documents("validation"))

    first, held_out = fingerprint(TEXTS)
    last = held_out[-1].decode()
    assert TEXTS.index(last) > 100
    second, others = fingerprint([text for text in TEXTS if text != last])
    assert others == held_out[:-1] and second != first


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_new_content_of_the_same_time_is_read(tmp_path, name):
    """As rsync and archives leave it; the library knows a file again by its name and its time."""
    for texts in (["old one", "old two"], ["new one", "new two"]):
        json_lines(tmp_path / "plain", texts)
        content = (tmp_path / "plain").read_bytes()
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        os.utime(tmp_path / name, (1e9, 1e9))
        corpus = HuggingFace("json", data_files=str(tmp_path / name), validation_fraction=0.5)
        assert {*corpus.documents("train"), *corpus.documents("validation")} == {t.encode() for t in texts}


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("name", ["a.txt", "a.csv"])
def test_a_reader_that_loses_text_is_refused_however_it_is_chosen(tmp_path, name, streaming):
    """The library chooses by the names in a folder: nobody named the reader."""
    (tmp_path / name).write_bytes(b"text\na\rb\nc\n")
    with pytest.raises(InputError, match=r"is read by '(text|csv)', which .* so that text is lost"):
        HuggingFace(str(tmp_path), streaming=streaming).fingerprint  # noqa: B018


@pytest.mark.parametrize("streaming", [False, True])
def test_files_that_are_not_there_or_empty_are_named(tmp_path, streaming):
    """The library ends in the middle of its own loops then."""
    (tmp_path / "empty.json").write_bytes(b"")
    for name, message in (("none*.json", "."), ("empty.json", "hold no record")):
        corpus = HuggingFace("json", data_files=str(tmp_path / name), streaming=streaming)
        with pytest.raises(InputError, match=rf"{re.escape(name)}.*{message}") as found:
            list(corpus.documents("train"))
        assert "StopIteration" not in str(found.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"path": "nobody/nothing"}, r"cannot load path = 'nobody/nothing'.* Without a network"),
        ({"path": "./nowhere"}, r"path = '\./nowhere': there is no such folder"),
        ({"path": "json", "data_files": "none.jsonl"}, r"data_files = \['none\.jsonl'\]"),
        (
            {"path": "text", "data_files": "a.txt"},
            r"'text', which ends lines at a lone .*name plain text with",
        ),
        ({"path": "csv", "data_files": "a.csv"}, r"'csv', which takes texts such as NA for none"),
        ({"path": "json"}, r"data_files must be given with HuggingFace\.path = 'json'"),
        ({"path": "saved", "name": "english"}, r"save_to_disk, which takes no HuggingFace\.name = 'english'"),
        ({"path": "saved", "data_files": "a.jsonl"}, r"takes no HuggingFace\.data_files = \['a\.jsonl'\]"),
        ({"path": "saved", "split": "tran"}, r"no split 'tran'; it has 'train', 'test'"),
        ({"path": "saved", "validation_split": "validation"}, r"no split 'validation'; it has 'train'"),
        ({"path": "saved", "text_field": "body"}, r"no column 'body': .* one of \['text', 'n'\]"),
        ({"path": "saved", "text_field": "n"}, r"'n' is int, and should be text"),
        ({"path": "saved", "validation_split": "train"}, r"are both 'train'"),
        ({"path": "saved", "shuffle_window": 0}, r"shuffle_window = 0 should be at least 1"),
    ],
)
@pytest.mark.parametrize("streaming", [False, True])
def test_what_is_not_there_is_refused_in_a_sentence(files, settings, message, streaming):
    if settings["path"] == "saved":
        settings = settings | {"path": str(files / "saved")}
    with pytest.raises(InputError, match=message):
        list(HuggingFace(**settings, streaming=streaming).documents("validation"))
    if settings.get("text_field") != "n":  # found when it is read, and not in the bytes of a file
        with pytest.raises(InputError, match=message):
            HuggingFace(**settings, streaming=streaming).fingerprint  # noqa: B018


@pytest.mark.parametrize("streaming", [False, True])
def test_a_file_that_is_damaged_further_on_is_refused_in_a_sentence(files, streaming):
    """It is found when its rows are read; the library's first line says only that there was an error."""
    content = (files / "a1.parquet").read_bytes()
    (files / "a1.parquet").write_bytes(content[: len(content) // 2])
    corpus = HuggingFace("parquet", data_files=str(files / "a?.parquet"), streaming=streaming)
    with pytest.raises(
        InputError,
        match=r"(cannot load .*a\?\.parquet|a\?\.parquet.* cannot be read past record).*(Parquet|magic)",
    ) as found:
        list(corpus.documents("train"))
    assert "\n" not in str(found.value)
