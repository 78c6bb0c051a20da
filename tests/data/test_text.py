"""If these fail, a run trains on what it validates on, tokenises at every start, or dies of a cache."""

import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import datasets
import numpy as np
import pytest

from seqmodels.data.corpora import HuggingFace, PythonSource, TextFiles
from seqmodels.data.text import Text
from seqmodels.data.tokenizers import BytePairTokenizer, ByteTokenizer
from seqmodels.errors import InputError


@pytest.fixture
def files(tmp_path):
    (tmp_path / "data").mkdir()
    for i in range(30):
        (tmp_path / "data" / f"{i:02d}.txt").write_text(f"text {i} " * 20)
    return tmp_path / "data"


def prepared(corpus, cache, tokenizer=None):
    data, lines = Text(corpus, tokenizer), []
    data.prepare(cache, lines.append)
    return data, lines


def documents_of(data, store):
    return [data.tokenizer.decode(store.document(i)) for i in range(len(store))]


def test_what_is_stored_is_the_text(files, tmp_path):
    data, _ = prepared(TextFiles(str(files), validation_fraction=0.2), tmp_path / "cache")
    stored = documents_of(data, data.train) + documents_of(data, data.validation)
    assert sorted(stored) == sorted(path.read_bytes() for path in files.iterdir())
    about = data.describe()
    assert about["train_documents"] + about["validation_documents"] == 30
    assert about["train_bytes"] + about["validation_bytes"] == sum(map(len, stored))
    assert about["vocab_size"] == data.vocab_size == 257
    count = about["train_documents"]
    assert data.bytes_per_token == about["train_bytes"] / (about["train_bytes"] + count)


def test_a_second_run_in_another_process_finds_the_tokens(files, tmp_path):
    script = (
        "from seqmodels.data.corpora import TextFiles; from seqmodels.data.text import Text\n"
        "from seqmodels.data.tokenizers import BytePairTokenizer\n"
        f"data = Text(TextFiles({str(files)!r}), BytePairTokenizer(300)); data.prepare()\n"
        "print(data.fingerprint, data.train.tokens.sum())"
    )
    environment = dict(os.environ, SEQMODELS_CACHE=str(tmp_path / "cache"), PYTHONPATH=os.getcwd())
    command = [sys.executable, "-c", script]
    first, second = (
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    first, second = first.splitlines(), second.splitlines()
    assert "learned" in first[0] and "written" in first[-2]
    assert "found" in second[0] and "found" in second[1] and len(second) == 3
    assert first[-1] == second[-1]


def test_another_content_tokenizer_or_setting_is_another_store(files, tmp_path):
    cache = tmp_path / "cache"
    variants = [
        prepared(TextFiles(str(files)), cache)[0].fingerprint,
        prepared(TextFiles(str(files)), cache, BytePairTokenizer(260))[0].fingerprint,
        prepared(TextFiles(str(files), document="line"), cache)[0].fingerprint,
    ]
    (files / "00.txt").write_text("changed")
    variants.append(prepared(TextFiles(str(files)), cache)[0].fingerprint)
    assert len(set(variants)) == 4


def test_two_processes_at_once_make_one_store(files, tmp_path):
    """Both find no tokens, both write; the second to finish takes the first one's."""
    lines, results, meet = [], [], threading.Barrier(4)

    class Waiting(ByteTokenizer):
        def encode_documents(self, documents):
            meet.wait()
            return super().encode_documents(documents)

    def run():
        data = Text(TextFiles(str(files)), Waiting())
        data.prepare(tmp_path / "cache", lines.append)
        results.append(int(data.train.tokens.sum()))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4 and len(set(results)) == 1
    assert len(list((tmp_path / "cache" / "tokens").iterdir())) == 1, "work was left behind"
    assert not any("found" in line for line in lines)


def test_a_fault_on_the_way_leaves_nothing_behind(files, tmp_path):
    (files / "bad.txt").write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"bad\.txt is not UTF-8"):
        prepared(TextFiles(str(files)), tmp_path / "cache")
    assert not list((tmp_path / "cache" / "tokens").iterdir())
    (files / "bad.txt").unlink()
    prepared(TextFiles(str(files)), tmp_path / "cache")


def test_validation_that_is_in_training_is_left_out_and_counted(files, tmp_path):
    held = tmp_path / "held.txt"
    held.write_text("text 3 " * 20 + "\nnew\n")
    data, lines = prepared(TextFiles(str(files), str(held), document="line"), tmp_path / "cache")
    assert bytes(data.validation.tokens.tolist()) == b"new"
    assert any("validation has 1 documents" in line and "1 also in training" in line for line in lines)
    assert data.describe()["validation_left_out"] == {"also in training": 1}
    held.write_text("text 3 " * 20)
    with pytest.raises(InputError, match=r"validation corpus is empty.* 1 also in training"):
        prepared(TextFiles(str(files), str(held), document="line"), tmp_path / "cache")


@pytest.mark.parametrize(("unit", "content"), [("file", b""), ("line", b"\n\r\n\n"), ("line", b"")])
def test_files_without_text_are_refused(tmp_path, unit, content):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match="the corpus is empty: no document of 2 files"):
        prepared(TextFiles(str(tmp_path / "?.txt"), document=unit), tmp_path / "cache")
    two = TextFiles(str(tmp_path / "a.txt"), str(tmp_path / "b.txt"), document=unit)
    with pytest.raises(InputError, match="the training corpus is empty: no document holds text"):
        prepared(two, tmp_path / "cache")


def test_blank_lines_and_records_without_text_are_counted(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text":""}\n{"text":null}\n\n{"text":"ok"}\n')
    (tmp_path / "b.txt").write_text("held\n\nout\n")
    corpus = TextFiles(str(tmp_path / "a.jsonl"), str(tmp_path / "b.txt"), document="line")
    data, _ = prepared(corpus, tmp_path / "cache")
    assert bytes(data.train.tokens.tolist()) == b"ok"
    assert data.describe()["train_left_out"] == {"without text": 2}
    assert data.describe()["validation_left_out"] == {"without text": 1}


def test_a_cache_that_cannot_be_written_is_named(files, tmp_path):
    (tmp_path / "cache").write_text("a file")
    for tokenizer in (None, BytePairTokenizer(260)):
        with pytest.raises(InputError, match=r"cannot write to the cache .*set SEQMODELS_CACHE"):
            prepared(TextFiles(str(files)), tmp_path / "cache", tokenizer)


@pytest.mark.parametrize("limit", [0, 3_000, 20_000])
@pytest.mark.parametrize("vocab_size", [None, 300])
def test_a_disk_that_is_full_leaves_nothing_behind(files, tmp_path, vocab_size, limit):
    """A limit on the size of files stands for it: it strikes in the tokenizer's file or in the tokens."""
    (files / "long.txt").write_text("long " * 20_000)
    tokenizer = vocab_size and BytePairTokenizer(vocab_size)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        with pytest.raises(
            InputError, match=r"cannot write to the cache .*: set SEQMODELS_CACHE .* has room"
        ):
            prepared(TextFiles(str(files)), tmp_path / "cache", tokenizer)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert not list((tmp_path / "cache").rglob("making-*")), "half a store is left"
    assert not list((tmp_path / "cache").glob("tokens/*"))
    prepared(TextFiles(str(files)), tmp_path / "cache", tokenizer)


def test_a_store_that_was_damaged_is_refused_when_it_is_found(files, tmp_path):
    data, _ = prepared(TextFiles(str(files)), tmp_path / "cache")
    tokens = tmp_path / "cache" / "tokens" / data.fingerprint / "train" / "tokens.bin"
    content = bytearray(tokens.read_bytes())
    content[20] ^= 1
    tokens.write_bytes(content)
    with pytest.raises(InputError, match=r"train is damaged \(tokens\.bin .* delete it"):
        prepared(TextFiles(str(files)), tmp_path / "cache")


def test_a_cache_may_be_shared_and_need_not_be_writable(files, tmp_path):
    """Folders have the rights that the umask gives, for others to read them; and reading writes nothing."""
    data, _ = prepared(TextFiles(str(files)), tmp_path / "cache", BytePairTokenizer(260))
    plain = tmp_path / "plain"
    plain.mkdir()
    made = tmp_path / "cache" / "tokens" / data.fingerprint
    assert made.stat().st_mode == (made / "train").stat().st_mode == plain.stat().st_mode
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*")}
    prepared(TextFiles(str(files)), tmp_path / "cache", BytePairTokenizer(260))
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").rglob("*")}


def test_a_machine_without_a_home_is_told_what_to_set(monkeypatch):
    monkeypatch.delenv("SEQMODELS_CACHE", raising=False)
    monkeypatch.setattr(Path, "home", lambda: Path("~nobody-of-this-name").expanduser())
    with pytest.raises(InputError, match="no home folder for the cache: set SEQMODELS_CACHE"):
        prepared(PythonSource(), None)


def test_the_cache_is_where_the_environment_says(files, tmp_path, monkeypatch):
    monkeypatch.setenv("SEQMODELS_CACHE", str(tmp_path / "from the environment"))
    prepared(TextFiles(str(files)), None)
    assert (tmp_path / "from the environment" / "tokens").is_dir()


def test_the_stream_is_packed_rows_of_training(files, tmp_path):
    data, _ = prepared(TextFiles(str(files)), tmp_path / "cache")
    batch = next(data.stream(4, 32, seed=0))
    assert {name: array.shape for name, array in batch.items()} == dict.fromkeys(batch, (4, 32))
    with pytest.raises(InputError, match="row_length = 1000000"):
        data.stream(4, 1_000_000, seed=0)


def test_python_source_is_ready_without_a_download(tmp_path):
    data, _ = prepared(PythonSource(), tmp_path / "cache")
    keys = set(data.train.content_keys.tolist())
    assert keys.isdisjoint(data.validation.content_keys.tolist())
    assert len(data.train.tokens) > 8_000_000


def test_a_streamed_corpus_keeps_validation_alone_and_resumes(tmp_path):
    texts = [f"document {i} " * (i % 7 + 1) for i in range(400)]
    datasets.disable_progress_bars()
    datasets.Dataset.from_dict({"text": texts}).save_to_disk(tmp_path / "saved")

    def corpus():
        path = str(tmp_path / "saved")
        return HuggingFace(path, validation_fraction=0.1, streaming=True, shuffle_window=50)

    data, _ = prepared(corpus(), tmp_path / "cache", BytePairTokenizer(300))
    assert data.train is None
    assert data.bytes_per_token > 1.5
    held_out = set(documents_of(data, data.validation))
    stream, seen = data.stream(4, 64, seed=0), b""
    for _ in range(60):
        batch = next(stream)
        seen += b"".join(data.tokenizer.decode([t]) or b"\n" for t in batch["targets"].ravel())
    documents = seen.split(b"\n")[:-1]
    assert held_out.isdisjoint(documents), "validation text is in the training stream"
    training = [text.encode() for text in texts if text.encode() not in held_out]
    assert sorted(documents[: len(training)]) == sorted(training)
    again, _ = prepared(corpus(), tmp_path / "cache", BytePairTokenizer(300))
    resumed = again.stream(4, 64, seed=0)
    resumed.restore(stream.state())
    assert np.array_equal(next(resumed)["tokens"], next(stream)["tokens"])


def test_no_heavy_library_is_imported_for_bytes():
    """`train.py --help` must not wait for them."""
    script = "import sys, seqmodels.data.text; print(*sys.modules)"
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", script]
    output = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    assert not {"datasets", "pyarrow", "tokenizers", "zstandard", "jax"} & set(output.split())
