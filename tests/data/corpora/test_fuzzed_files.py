"""If these fail, some file is read as other documents than it holds, or ends a run with a traceback."""

import gzip
import io
import json
import re

import hypothesis.strategies as st
import pyarrow as pa
import pytest
import zstandard
from hypothesis import example
from pyarrow import ipc, parquet

from seqmodels.data.corpora.documents import read_documents
from seqmodels.errors import InputError
from tests.fuzzing import fuzz

TEXT = st.text(st.characters(codec="utf-8"), max_size=30)
TEXTS = st.lists(TEXT, max_size=12)
MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
MAGICS = (
    b"PAR1",
    b"ARROW1\x00\x00",
    b"\xff\xff\xff\xff",
    b"\x1f\x8b",
    b"\x28\xb5\x2f\xfd",
    b"\x50\x2a\x4d\x18",
)
SUFFIXES = (".txt", ".jsonl", ".parquet", ".arrow", ".txt.gz", ".jsonl.zst")
LINE_ENDS = st.sampled_from([b"\n", b"\r\n"])


def gzipped(content):
    return gzip.compress(content, mtime=0)


def zstd(content):
    return zstandard.ZstdCompressor(write_checksum=True).compress(content)


COMPRESSIONS = {"": bytes, ".gz": gzipped, ".zst": zstd}


def documents_or_sentence(path, content, unit="file"):
    """The documents of a file, or None where it is refused, which must be in one line that names it."""
    path.write_bytes(content)
    try:
        return list(read_documents(path, unit, "text"))
    except InputError as error:
        message = str(error)
        assert str(path) in message and "\n" not in message and message.endswith(".")
        return None


def plain_documents(content, unit):
    """What a plain text file holds, another way; None where it is not UTF-8."""
    content = content.removeprefix(MARKS[0])
    try:
        content.decode("utf-8", "strict")
    except UnicodeDecodeError:
        return None
    if unit == "file":
        return [content]
    lines = re.split(rb"\r?\n", content)
    return lines if lines[-1] else lines[:-1]


def table_as(kind, texts, rows):
    """A file of two columns, `rows` of them in a group; Parquet's pages with checksums."""
    table, sink = pa.table({"n": range(len(texts)), "text": pa.array(texts, pa.string())}), io.BytesIO()
    if kind == "parquet":
        parquet.write_table(table, sink, row_group_size=rows, write_page_checksum=True)
    else:
        new = ipc.new_file if kind == "arrow file" else ipc.new_stream
        with new(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=rows)
    return sink.getvalue()


@st.composite
def damages(draw):
    """A way to damage bytes: cut short, a bit flipped, a byte put in or taken out, at a place from 0 to 1."""
    kind, place = draw(st.sampled_from(["cut", "flip", "insert", "delete"])), draw(st.floats(0, 1))
    value = draw(st.integers(0, 255))

    def damaged(content):
        at = min(int(place * len(content)), len(content) - 1)
        if kind == "cut":
            return content[:at]
        if kind == "flip":
            return content[:at] + bytes([content[at] ^ (1 << value % 8)]) + content[at + 1 :]
        return (
            content[:at] + (bytes([value]) if kind == "insert" else b"") + content[at + (kind == "delete") :]
        )

    damaged.__name__ = f"{kind}_at_{place:.4f}_{value}"
    return damaged


@fuzz(
    content=st.binary(max_size=200)
    | st.builds(bytes.__add__, st.sampled_from(MARKS + MAGICS), st.binary(max_size=200)),
    suffix=st.sampled_from(SUFFIXES),
    unit=st.sampled_from(["file", "line"]),
    campaign=300,
)
@example(content=b"a\r", suffix=".txt", unit="line")
@example(content=b"", suffix=".parquet", unit="file")
@example(content=b"", suffix=".txt.gz", unit="file")
@example(content=b"[" * 100_000, suffix=".jsonl", unit="file")
def test_any_bytes_are_read_or_refused(content, suffix, unit, tmp_path):
    documents = documents_or_sentence(tmp_path / f"a{suffix}", content, unit)
    if suffix == ".txt" and not content.startswith(MARKS[1:] + MAGICS):
        assert documents == plain_documents(content, unit)


@fuzz(texts=TEXTS, end=LINE_ENDS, last=st.booleans(), mark=st.booleans(), campaign=200)
def test_lines_are_kept_whatever_ends_them(texts, end, last, mark, tmp_path):
    """Also as one document, and under each compression."""
    lines = [re.sub(rb"\n", b"", text.encode()).rstrip(b"\r") for text in texts]
    content = MARKS[0] * mark + end.join(lines) + end * last
    for suffix, compress in COMPRESSIONS.items():
        path = tmp_path / f"a.txt{suffix}"
        if not content.startswith(MARKS[1:] + MAGICS):
            assert documents_or_sentence(path, compress(content)) == plain_documents(content, "file")
            found = documents_or_sentence(path, compress(content), "line")
            assert found == plain_documents(content, "line")
            if last and lines:
                assert found == lines


@fuzz(
    texts=TEXTS,
    other=st.none() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.booleans()),
    ascii_only=st.booleans(),
    end=LINE_ENDS,
    damage=damages(),
    campaign=200,
)
def test_json_lines_are_kept_or_refused(texts, other, ascii_only, end, damage, tmp_path):
    records = [json.dumps({"other": other, "text": text}, ensure_ascii=ascii_only) for text in texts]
    content = b"".join(record.encode() + end for record in records)
    documents = [text.encode() for text in texts]
    for suffix, compress in COMPRESSIONS.items():
        assert documents_or_sentence(tmp_path / f"a.jsonl{suffix}", compress(content)) == documents
    if content:
        harmed = damage(content)
        found = documents_or_sentence(tmp_path / "a.jsonl", harmed)
        whole = harmed.count(b"\n") == content.count(b"\n")
        assert found is None or not whole or len(found) == len(documents), "a record is gone"
        assert found is None or not damage.__name__.startswith("cut") or found == documents[: len(found)]


@pytest.mark.parametrize("kind", ["parquet", "arrow file", "arrow stream"])
@fuzz(
    texts=st.lists(st.none() | TEXT, max_size=12),
    damage=damages(),
    rows=st.integers(1, 5),
    quick=20,
    campaign=150,
)
def test_columns_are_kept_or_refused(kind, texts, damage, rows, tmp_path):
    content, documents = table_as(kind, texts, rows), [(text or "").encode() for text in texts]
    for suffix, compress in COMPRESSIONS.items():
        assert documents_or_sentence(tmp_path / f"a.arrow{suffix}", compress(content)) == documents
    found = documents_or_sentence(tmp_path / "a.arrow", damage(content))
    assert found is None or len(found) == len(documents), "rows are gone"


@pytest.mark.parametrize("compression", [".gz", ".zst"])
@fuzz(texts=TEXTS, damage=damages(), quick=25, campaign=150)
def test_compressed_files_are_kept_or_refused(compression, texts, damage, tmp_path):
    content = "".join(texts).encode()
    harmed = damage(COMPRESSIONS[compression](content))
    found = documents_or_sentence(tmp_path / f"a.txt{compression}", harmed)
    assert found is None or found == plain_documents(content, "file")
