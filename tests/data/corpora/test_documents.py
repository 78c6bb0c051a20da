"""If these fail, a file is read as other documents than it holds, or a fault in it has no place and name."""

import gzip
import io
import json

import pyarrow as pa
import pytest
import zstandard
from pyarrow import ipc, parquet

from seqmodels.data.corpora.documents import read_documents
from seqmodels.errors import InputError


@pytest.fixture
def documents_of(tmp_path):
    """Writes bytes to a file of a name, and reads its documents."""

    def read(name, content, unit="file", text_field="text"):
        path = tmp_path / name
        path.write_bytes(content)
        return list(read_documents(path, unit, text_field))

    return read


ODD_LINES = bytes.fromhex("61 e2 80 a8 62 e2 80 a9 63 0b 64 0c 65 1c 66 c2 85 67 0a")


def test_lines_end_at_newlines_alone(documents_of):
    """U+2028, U+2029, \\v, \\f, \\x1c and U+0085 end lines for str.splitlines, which would find seven."""
    assert documents_of("a.txt", ODD_LINES, "line") == [ODD_LINES[:-1]]
    assert documents_of("a.txt", b"a\rb\r\nc\n\r\nd", "line") == [b"a\rb", b"c", b"", b"d"]


def test_a_file_keeps_every_byte(documents_of):
    assert documents_of("a.txt", b"a\nb\n\nc\n") == [b"a\nb\n\nc\n"]
    assert documents_of("a.txt", ODD_LINES) == [ODD_LINES]
    assert documents_of("a.txt", b"a\nb\n\nc\n", "line") == [b"a", b"b", b"", b"c"]
    assert documents_of("a.txt", b"") == [b""]


@pytest.mark.parametrize("unit", ["file", "line"])
def test_text_that_is_not_utf8_is_refused_with_its_byte(documents_of, unit):
    with pytest.raises(InputError, match=r"bad\.txt is not UTF-8: byte 0xac at byte 2 "):
        documents_of("bad.txt", b"hi\xac\n", unit)
    with pytest.raises(InputError, match="byte 0xff at byte 13 "):
        documents_of("bad.txt", b"\xef\xbb\xbfline\n\xc3\xb6\nhi\xff\n", unit)


@pytest.mark.parametrize("unit", ["file", "line"])
def test_a_byte_order_mark_is_no_text(documents_of, unit):
    text = b"hi" if unit == "line" else b"hi\n"
    assert documents_of("bom.txt", b"\xef\xbb\xbfhi\n", unit) == [text]
    assert documents_of("bom.jsonl", b'\xef\xbb\xbf{"text": "hi"}\n', unit) == [b"hi"]


@pytest.mark.parametrize("mark", ["ff fe 68 00 69 00", "fe ff 00 68 00 69", "00 00 fe ff 00 00 00 68"])
def test_other_unicode_is_refused_by_name(documents_of, mark):
    with pytest.raises(InputError, match=r"u\.txt is UTF-(16|32) .*convert it to UTF-8"):
        documents_of("u.txt", bytes.fromhex(mark))


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.zst", "a.gz"])
@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstandard.compress])
def test_compression_is_told_by_content(documents_of, name, compress):
    assert documents_of(name, compress(b"a\nb\n"), "line") == [b"a", b"b"]


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
def test_compressed_files_of_several_members_and_many_chunks(documents_of, compress):
    long = b"".join(b"%d\n" % i for i in range(200_000))
    assert documents_of("a.txt", compress(long) + compress(b"more")) == [long + b"more"]


@pytest.mark.parametrize(("compress", "name"), [(gzip.compress, "gzip"), (zstandard.compress, "zstd")])
def test_compressed_files_cut_short_are_refused(documents_of, compress, name):
    """zstandard's own reader would take the first half for the whole."""
    whole = compress(json.dumps(list(range(10_000))).encode())
    for content in (whole[: len(whole) // 2], whole[:-1], whole[:30] + b"\xff\xff\xff" + whole[33:]):
        with pytest.raises(InputError, match=rf"a\.txt is {name}, and damaged"):
            documents_of("a.txt", content)


def test_records_whose_other_fields_differ(documents_of):
    lines = b'{"text":"x","meta":null}\n{"text":"y","meta":"s"}\n{"text":"z","meta":3,"k":[]}\n'
    assert documents_of("a.jsonl", lines) == [b"x", b"y", b"z"]
    assert documents_of("a.jsonl.gz", gzip.compress(lines)) == [b"x", b"y", b"z"]
    assert documents_of("a.json.zst", zstandard.compress(lines)) == [b"x", b"y", b"z"]


def test_records_without_text_are_empty_documents(documents_of):
    lines = b'{"text":""}\n{"text":null}\n\n   \n{"text":"ok"}\r\n{"text":"\\u2028 \xe2\x80\xa8"}'
    assert documents_of("a.jsonl", lines) == [b"", b"", b"ok", "\u2028 \u2028".encode()]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"txt":"q"}', r"a\.jsonl:3: no field 'text' among \['txt'\]; text_field can name another"),
        (b"{bad", r"a\.jsonl:3: this line is not JSON"),
        (b'"text"', r"a\.jsonl:3: a line should be a JSON object, and this is str"),
        (b'{"text":["a"]}', r"a\.jsonl:3: 'text' is list, and should be text"),
        (b'{"text":"\\ud800"}', r"a\.jsonl:3: 'text' is not Unicode text"),
        (b'{"text":"\xff"}', r"a\.jsonl is not UTF-8: byte 0xff at byte 24"),
    ],
)
def test_a_bad_record_is_refused_with_its_line(documents_of, line, message):
    with pytest.raises(InputError, match=message):
        documents_of("a.jsonl", b'{"text":"ok"}\n\n' + line + b'\n{"text":"ok"}\n')


def table_as(kind, columns):
    table, sink = pa.table(columns), io.BytesIO()
    if kind == "parquet":
        parquet.write_table(table, sink, row_group_size=2)
    else:
        new = ipc.new_file if kind == "arrow file" else ipc.new_stream
        with new(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
    return sink.getvalue()


@pytest.mark.parametrize("kind", ["parquet", "arrow file", "arrow stream"])
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_columns(documents_of, kind, compress):
    columns = {"n": [1, 2, 3, 4], "text": ["x", None, "zü", ""], "other": ["a", "b", "c", "d"]}
    content = compress(table_as(kind, columns))
    assert documents_of("a.data", content) == [b"x", b"", "zü".encode(), b""]
    assert documents_of("a.data", content, text_field="other") == [b"a", b"b", b"c", b"d"]
    with pytest.raises(InputError, match=r"no column 'body' among .*'text'"):
        documents_of("a.data", content, text_field="body")
    with pytest.raises(InputError, match=r"a\.data, row 0: 'n' is int"):
        documents_of("a.data", content, text_field="n")


@pytest.mark.parametrize("kind", ["parquet", "arrow file", "arrow stream"])
def test_damaged_columns_are_refused(documents_of, kind):
    content = table_as(kind, {"text": ["some text"] * 100})
    with pytest.raises(InputError, match=r"a\.data is damaged"):
        documents_of("a.data", content[: len(content) // 2])
