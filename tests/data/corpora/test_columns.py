"""If these fail, rows of a table are lost in silence, or a damaged one ends the process."""

import gzip
import io

import pyarrow as pa
import pytest
from pyarrow import ipc, parquet

from seqmodels.errors import InputError


def table_as(kind, columns):
    table, sink = pa.table(columns), io.BytesIO()
    if kind == "parquet":
        parquet.write_table(table, sink, row_group_size=2, write_page_checksum=True)
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


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow.gz"])
@pytest.mark.parametrize("content", [b"", b"PAR", b"some text"])
def test_the_name_of_a_table_alone_is_refused(documents_of, name, content):
    content = gzip.compress(content) if name.endswith(".gz") else content
    with pytest.raises(InputError, match="begins like neither Parquet nor Arrow"):
        documents_of(name, content)


def test_a_stream_without_its_end_or_with_more_behind_it_is_refused(documents_of):
    """The library takes both for whole: what lies behind the border of two rows would be gone."""
    content = table_as("arrow stream", {"text": ["a", "b", "c", "d"]})
    first_rows = table_as("arrow stream", {"text": ["a", "b"]})
    for compress in (bytes, gzip.compress):
        with pytest.raises(InputError, match="is damaged: it is cut short, without its end of stream"):
            documents_of("a.data", compress(first_rows[:-8]))
        with pytest.raises(InputError, match=rf"is damaged: {len(content)} bytes stand behind its end"):
            documents_of("a.data", compress(first_rows + content))


def test_two_columns_of_one_name_are_refused(documents_of):
    sink, text = io.BytesIO(), pa.array(["x"])
    table = pa.Table.from_arrays([text, text], ["text", "text"])
    with ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(InputError, match=r"a\.data: two columns 'text' among"):
        documents_of("a.data", sink.getvalue())


@pytest.mark.parametrize("kind", ["parquet", "arrow file", "arrow stream"])
def test_text_of_any_type_but_text_is_refused(documents_of, kind):
    kinds = {"large_string": pa.large_string(), "dictionary": pa.dictionary(pa.int32(), pa.string())}
    for type_ in kinds.values():
        assert documents_of("a.data", table_as(kind, {"text": pa.array(["x", "y"], type_)})) == [b"x", b"y"]
    with pytest.raises(InputError, match="row 0: 'text' is bytes, and should be text"):
        documents_of("a.data", table_as(kind, {"text": pa.array([b"x"])}))
    latin = pa.array([b"caf\xe9"]).view(pa.string())
    with pytest.raises(InputError, match=r"a\.data is damaged: .*UTF8"):
        documents_of("a.data", table_as(kind, {"text": latin}))


def test_offsets_that_lead_astray_are_refused(documents_of):
    """Followed, they read other memory, or end the process."""
    content = table_as("arrow stream", {"text": ["some", "text"]})
    offsets = b"".join(n.to_bytes(4, "little") for n in (0, 4, 8))
    wrong = b"".join(n.to_bytes(4, "little") for n in (0, 4, 1 << 30))
    assert content.count(offsets) == 1
    with pytest.raises(InputError, match="is damaged"):
        documents_of("a.data", content.replace(offsets, wrong))


def test_a_flipped_bit_in_a_page_with_a_checksum_is_refused(documents_of):
    content = table_as("parquet", {"text": ["some text", "other"]})
    at = content.index(b"some text")
    for bit in range(8):
        wrong = content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]
        with pytest.raises(InputError, match=r"is damaged: .*CRC"):
            documents_of("a.data", wrong)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "arrow file", "arrow stream"])
def test_no_flipped_bit_takes_rows_away(documents_of, kind):
    """The footer of an Arrow file can come to say that there are none; the library believes it."""
    content = table_as(kind, {"text": ["some text", None, "other", ""]})
    for bit in range(8 * len(content)):
        wrong = bytearray(content)
        wrong[bit // 8] ^= 1 << bit % 8
        try:
            assert len(documents_of("a.arrow", bytes(wrong))) == 4, f"bit {bit}"
        except InputError as error:
            assert "a.arrow" in str(error)
