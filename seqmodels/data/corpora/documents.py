"""The documents of one file: plain text, JSON lines, Parquet or Arrow.

Bytes are kept as they are. Lines end at \\n or \\r\\n and nowhere else: not at U+2028, U+0085, \\v or \\f. A
UTF-8 byte order mark at the start of a file is no text. Text that is not UTF-8 is refused with its place.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Literal

from seqmodels.data.corpora.local_files import content_suffix, open_content
from seqmodels.errors import InputError

DocumentUnit = Literal["file", "line"]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_OTHER_UNICODE = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16", b"\x00\x00\xfe\xff": "UTF-32"}
_PARQUET, _ARROW_FILE, _ARROW_STREAM = b"PAR1", b"ARROW1", b"\xff\xff\xff\xff"
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
        head = file.peek(8)[:8]
        if head.startswith((_PARQUET, _ARROW_FILE, _ARROW_STREAM)):
            yield from _columns(path, file, head, text_field)
            return
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
            for _, line in _lines(path, file, skip):
                yield line.removesuffix(b"\n").removesuffix(b"\r")
        else:
            yield _utf8(file.read(), path, skip)


def _lines(path: Path, file: BinaryIO, offset: int) -> Iterator[tuple[int, bytes]]:
    """(line number from 1, line with its end); a binary file's lines end at \\n alone."""
    for number, line in enumerate(file, 1):
        yield number, _utf8(line, path, offset)
        offset += len(line)


def _json_lines(path: Path, file: BinaryIO, offset: int, text_field: str) -> Iterator[bytes]:
    """A record a line. Blank lines are no records; a text that is null or empty is an empty document."""
    for number, line in _lines(path, file, offset):
        if not line.strip():
            continue
        at = f"{path}:{number}"
        try:
            record = json.loads(line)
        except ValueError as error:
            raise InputError(f"{at}: this line is not JSON ({error}).") from None
        if not isinstance(record, dict):
            raise InputError(f"{at}: a line should be a JSON object, and this is {type(record).__name__}.")
        if text_field not in record:
            raise _no_text(at, "field", text_field, sorted(record))
        yield _text(record[text_field], at, text_field)


def _columns(path: Path, file: BinaryIO, head: bytes, text_field: str) -> Iterator[bytes]:
    """A record a row, from one column, some rows at a time."""
    import pyarrow
    from pyarrow import ipc, parquet

    try:
        source = pyarrow.memory_map(str(path))
        if source.read(4) != head[:4]:
            source = pyarrow.BufferReader(file.read())
        source.seek(0)
        if head.startswith(_PARQUET):
            table = parquet.ParquetFile(source)
            schema = table.schema_arrow
            batches = table.iter_batches(columns=[text_field]) if text_field in schema.names else ()
        elif head.startswith(_ARROW_FILE):
            table = ipc.open_file(source)
            schema = table.schema
            batches = (table.get_batch(i) for i in range(table.num_record_batches))
        else:
            batches = ipc.open_stream(source)
            schema = batches.schema
        if text_field not in schema.names:
            raise _no_text(str(path), "column", text_field, schema.names)
        row = 0
        for batch in batches:
            for value in batch.column(text_field).to_pylist():
                yield _text(value, f"{path}, row {row}", text_field)
                row += 1
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{path} is damaged: {error}.") from None


def _no_text(at: str, kind: str, text_field: str, names: list[str]) -> InputError:
    return InputError(f"{at}: no {kind} {text_field!r} among {names}; text_field can name another.")


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
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError as error:
            raise InputError(
                f"{path} is not UTF-8: byte {text[error.start]:#04x} at byte {offset + error.start} "
                f"({error.reason})."
            ) from None
    return text
