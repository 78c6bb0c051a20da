"""The documents of one file: plain text, JSON lines, Parquet or Arrow.

Bytes are kept as they are. Lines end at \\n or \\r\\n and nowhere else: not at U+2028, U+0085, \\v or \\f. A
UTF-8 byte order mark at the start of a file is no text. Text that is not UTF-8 is refused with its place.

A document is held in memory whole, so the longest are refused: above 1 GiB of plain text, or 256 MiB as a
line of JSON, which takes several times its size to parse.
"""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal

from seqmodels.data.corpora.columns import holds_columns, read_column
from seqmodels.data.corpora.compression import open_content
from seqmodels.data.corpora.local_files import content_suffix, unreadable
from seqmodels.errors import InputError

DocumentUnit = Literal["file", "line"]

_LONGEST_TEXT, _LONGEST_RECORD = 1 << 30, 1 << 28
_PIECE = 1 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_OTHER_UNICODE = {
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
_COLUMNS = (".parquet", ".arrow")
_JSON_LINES = (".jsonl", ".ndjson", ".json")


def is_json_lines(path: Path) -> bool:
    """Whether a text file holds records; the one thing that is told by the name."""
    return content_suffix(path) in _JSON_LINES


def read_documents(path: Path, unit: DocumentUnit, text_field: str) -> Iterator[bytes]:
    """The documents of a file, in its order; empty ones where a record or a line holds no text.

    Args:
        unit: what a document is in a plain text file. In the other formats it is a record.
        text_field: the name of the text in a record; other fields are not looked at.

    Raises:
        InputError: naming file and line or byte, what cannot be read.
    """
    with open_content(path) as file:
        try:
            yield from _documents(path, file, unit, text_field)
        except OSError as error:
            raise unreadable(path, error) from None


def _documents(path: Path, file: io.BufferedReader, unit: DocumentUnit, text_field: str) -> Iterator[bytes]:
    head = file.peek(8)[:8]
    if holds_columns(head):
        advice = "decompress a table that is so large"
        source = file if file.seekable() else io.BytesIO(_rest(path, file, _LONGEST_RECORD, advice))
        for row, value in enumerate(read_column(path, source, head, text_field)):
            yield _text(value, f"{path}, row {row}", text_field)
        return
    if content_suffix(path) in _COLUMNS:
        raise InputError(
            f"{path} has the name of a table, and begins like neither Parquet nor Arrow "
            f"({head.hex(' ') or 'it is empty'}): it is damaged, or has the wrong name."
        )
    for mark, name in _OTHER_UNICODE.items():
        if head.startswith(mark):
            raise InputError(
                f"{path} is {name} (byte order mark {mark.hex(' ')} at byte 0): convert it to UTF-8."
            )
    skip = len(_BYTE_ORDER_MARK) if head.startswith(_BYTE_ORDER_MARK) else 0
    file.read(skip)
    if is_json_lines(path):
        yield from _json_lines(path, file, skip, text_field)
    elif unit == "line":
        for _, line in _lines(path, file, skip, _LONGEST_TEXT):
            yield line.removesuffix(b"\r\n").removesuffix(b"\n")
    else:
        advice = "part it into several, or make each line a document with TextFiles.document = 'line'"
        yield _utf8(_rest(path, file, _LONGEST_TEXT, advice), path, skip)


def _rest(path: Path, file: BinaryIO, longest: int, advice: str) -> bytes:
    """What is left of a file, without a second copy of it on the way."""
    text = io.BytesIO()
    while piece := file.read(_PIECE):
        text.write(piece)
        if text.tell() > longest:
            raise InputError(
                f"{path} holds more than {longest >> 20:,} MiB, the most that is read as one piece: {advice}."
            )
    return text.getvalue()


def _lines(path: Path, file: BinaryIO, offset: int, longest: int) -> Iterator[tuple[int, bytes]]:
    """(line number from 1, line with its end); a binary file's lines end at \\n alone."""
    for number, line in enumerate(iter(lambda: file.readline(longest + 1), b""), 1):
        if len(line) > longest:
            raise InputError(
                f"{path}:{number}: this line is longer than {longest >> 20:,} MiB, the most that is read as "
                "one document."
            )
        yield number, _utf8(line, path, offset)
        offset += len(line)


def _json_lines(path: Path, file: BinaryIO, offset: int, text_field: str) -> Iterator[bytes]:
    """A record a line. Blank lines are no records; a text that is null or empty is an empty document."""
    for number, line in _lines(path, file, offset, _LONGEST_RECORD):
        if not line.strip():
            continue
        at = f"{path}:{number}"
        try:
            record = json.loads(line.decode(), object_pairs_hook=JsonObject, parse_int=_any_integer)
        except RecursionError:
            raise InputError(f"{at}: this line has more levels of brackets than can be read.") from None
        except ValueError as error:
            raise InputError(f"{at}: this line is not JSON ({error}).") from None
        if not isinstance(record, JsonObject):
            raise InputError(f"{at}: a line should be a JSON object, and this is {type(record).__name__}.")
        values = [value for name, value in record if name == text_field]
        if not values:
            names = sorted({name for name, _ in record})
            raise InputError(f"{at}: no field {text_field!r} among {names}; text_field can name another.")
        if len(values) > 1:
            raise InputError(
                f"{at}: {len(values)} fields have the name {text_field!r}, and a document has one text."
            )
        yield _text(values[0], at, text_field)


class JsonObject(tuple):
    """The fields of a JSON object as (name, value): a dict would keep one of those that share a name."""


def _any_integer(digits: str) -> int:
    """Stands for an integer, which no text is: Python refuses to take one of thousands of digits."""
    return 0


def _text(value: object, at: str, text_field: str) -> bytes:
    if value is None:
        return b""
    if not isinstance(value, str):
        raise InputError(f"{at}: {text_field!r} is {type(value).__name__}, and should be text.")
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{at}: {text_field!r} is not Unicode text ({error}).") from None


def _utf8(text: bytes, path: Path, offset: int) -> bytes:
    """The text, once it is seen to be UTF-8: by pieces, since decoded it takes up to four times as much."""
    start = len(text) if text.isascii() else 0
    while start < len(text):
        end = min(start + _PIECE, len(text))
        while end < len(text) and text[end] & 0xC0 == 0x80 and end > start + _PIECE - 4:
            end -= 1  # a character's first byte is at most three before its last
        try:
            text[start:end].decode()
        except UnicodeDecodeError as error:
            raise InputError(
                f"{path} is not UTF-8: byte {text[start + error.start]:#04x} at byte "
                f"{offset + start + error.start} ({error.reason})."
            ) from None
        start = end
    return text
