"""If these fail, a file is read as other documents than it holds, or a fault in it has no place and name."""

import gzip

import pytest
import zstandard

from seqmodels.data.corpora import documents as documents_module
from seqmodels.errors import InputError

ODD_LINES = bytes.fromhex("61 e2 80 a8 62 e2 80 a9 63 0b 64 0c 65 1c 66 c2 85 67 0a")


def test_lines_end_at_newlines_alone(documents_of):
    """U+2028, U+2029, \\v, \\f, \\x1c and U+0085 end lines for str.splitlines, which would find seven."""
    assert documents_of("a.txt", ODD_LINES, "line") == [ODD_LINES[:-1]]
    assert documents_of("a.txt", b"a\rb\r\nc\n\r\nd", "line") == [b"a\rb", b"c", b"", b"d"]
    assert documents_of("a.txt", b"a\r\r\nb\r", "line") == [b"a\r", b"b\r"], (
        "a lone \\r is text, also at the end"
    )


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


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("ff fe 68 00 69 00", "UTF-16"),
        ("fe ff 00 68 00 69", "UTF-16"),
        ("00 00 fe ff 00 00 00 68", "UTF-32"),
        ("ff fe 00 00 68 00 00 00", "UTF-32"),
    ],
)
def test_other_unicode_is_refused_by_name(documents_of, content, name):
    with pytest.raises(InputError, match=rf"u\.txt is {name} .*convert it to UTF-8"):
        documents_of("u.txt", bytes.fromhex(content))


def test_long_text_is_checked_across_the_borders_of_its_pieces(documents_of, monkeypatch):
    """Characters of one to four bytes at every offset from a border, right ones and a wrong one."""
    monkeypatch.setattr(documents_module, "_PIECE", 16)
    for shift in range(8):
        text = b"x" * shift + "aö\u2028\U0001f600".encode() * 20
        assert documents_of("a.txt", text) == [text]
        for at in (15, 16, 17, 100):
            wrong = text[:at] + b"\xff" + text[at + 1 :]
            with pytest.raises(UnicodeDecodeError) as found:
                wrong.decode()
            with pytest.raises(InputError, match=f" at byte {found.value.start} "):
                documents_of("a.txt", wrong)


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_documents_too_long_for_memory_are_refused(documents_of, monkeypatch, compress):
    """The bounds are 1 GiB and 256 MiB; here they are 64 and 32 bytes."""
    monkeypatch.setattr(documents_module, "_LONGEST_TEXT", 64)
    monkeypatch.setattr(documents_module, "_LONGEST_RECORD", 32)
    assert documents_of("a.txt", compress(b"x" * 64)) == [b"x" * 64]
    with pytest.raises(InputError, match=r"a\.txt holds more than .* MiB.*TextFiles\.document = 'line'"):
        documents_of("a.txt", compress(b"x" * 65))
    assert documents_of("a.txt", compress(b"x\n" * 65), "line") == [b"x"] * 65
    with pytest.raises(InputError, match=r"a\.txt:2: this line is longer than"):
        documents_of("a.txt", compress(b"x\n" + b"x" * 65), "line")
    with pytest.raises(InputError, match=r"a\.jsonl:1: this line is longer than"):
        documents_of("a.jsonl", compress(b'{"text": "' + b"x" * 32 + b'"}'))


def test_records_whose_other_fields_differ(documents_of):
    lines = b'{"text":"x","meta":null}\n{"text":"y","meta":"s"}\n{"text":"z","meta":3,"k":[]}\n'
    assert documents_of("a.jsonl", lines) == [b"x", b"y", b"z"]
    assert documents_of("a.jsonl.gz", gzip.compress(lines)) == [b"x", b"y", b"z"]
    assert documents_of("a.json.zst", zstandard.compress(lines)) == [b"x", b"y", b"z"]
    odd = [b"9" * 5_000, b'{"text":1,"text":2}', b"[" * 100 + b"]" * 100, b'1,"n":2', b"NaN"]
    lines = b"".join(b'{"text":"x","n":%b}\n' % value for value in odd)
    assert documents_of("a.jsonl", lines) == [b"x"] * len(odd)


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
        (b"[" * 100_000, r"a\.jsonl:3: this line has more levels of brackets than"),
        (b'{"text":"a","text":"b"}', r"a\.jsonl:3: 2 fields have the name 'text'"),
    ],
)
def test_a_bad_record_is_refused_with_its_line(documents_of, line, message):
    with pytest.raises(InputError, match=message):
        documents_of("a.jsonl", b'{"text":"ok"}\n\n' + line + b'\n{"text":"ok"}\n')
