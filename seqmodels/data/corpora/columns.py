"""One column of a Parquet or an Arrow file, some rows at a time."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from seqmodels.errors import InputError

_PARQUET, _ARROW_FILE, _ARROW_STREAM = b"PAR1", b"ARROW1\0\0", b"\xff\xff\xff\xff"
_END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"
_ROWS = 256  # few enough that books fit into memory


def holds_columns(head: bytes) -> bool:
    """Whether a file that begins so is Parquet or Arrow."""
    return head.startswith((_PARQUET, _ARROW_FILE, _ARROW_STREAM))


def read_column(path: Path, file: BinaryIO, head: bytes, name: str) -> Iterator[object]:
    """The values of a column, row after row.

    The file is read, not mapped: a map of a file that is cut short meanwhile would end the process. Every
    batch is checked before it is used, since offsets that a flipped bit leads astray would be followed.

    Args:
        file: can be sought in.
        head: its first bytes, at least eight where there are so many.

    Raises:
        InputError: the file is damaged or incomplete, or has no such column, or two.
    """
    try:
        if head.startswith(_PARQUET):
            names, batches = _parquet(path, file, name)
        elif head.startswith(_ARROW_FILE):
            names, batches = _arrow_file(path, file)
        else:
            names, batches = _arrow_stream(path, file)
        if names.count(name) != 1:
            count = "two columns" if name in names else "no column"
            raise InputError(f"{path}: {count} {name!r} among {names}; text_field can name another.")
        for batch in batches:
            column = batch.column(name)
            column.validate(full=True)
            for value in column:
                yield value.as_py()
    except InputError:
        raise
    except Exception as error:  # flipped bits reach every corner of the library
        reason = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise InputError(f"{path} is damaged: {reason}.") from None


def _parquet(path: Path, file: BinaryIO, name: str) -> tuple[list[str], Iterator]:
    from pyarrow import parquet

    table = parquet.ParquetFile(file, buffer_size=1 << 20, page_checksum_verification=True)

    def batches() -> Iterator:
        count = 0
        for batch in table.iter_batches(_ROWS, columns=[name]):
            yield batch
            count += len(batch)
        if count != table.metadata.num_rows:
            raise InputError(f"{path} is damaged: it has {count} of {table.metadata.num_rows} rows.")

    return table.schema_arrow.names, batches()


def _arrow_file(path: Path, file: BinaryIO) -> tuple[list[str], Iterator]:
    """A stream between two magics, with a footer that says how many batches it has: the two must agree."""
    from pyarrow import ipc

    expected = ipc.open_file(file).num_record_batches
    file.seek(len(_ARROW_FILE))
    stream = ipc.open_stream(file)

    def batches() -> Iterator:
        count = 0
        for batch in stream:
            yield batch
            count += 1
        if count != expected:
            raise InputError(f"{path} is damaged: it has {count} of {expected} batches of rows.")

    return stream.schema.names, batches()


def _arrow_stream(path: Path, file: BinaryIO) -> tuple[list[str], Iterator]:
    """The library takes the end of a file for the end of a stream, and the first end for the last."""
    from pyarrow import ipc

    stream = ipc.open_stream(file)

    def batches() -> Iterator:
        yield from stream
        end, size = file.tell(), file.seek(0, os.SEEK_END)
        if end < size:
            raise InputError(f"{path} is damaged: {size - end} bytes stand behind its end of stream.")
        file.seek(-len(_END_OF_STREAM), os.SEEK_END)
        if file.read() != _END_OF_STREAM:
            raise InputError(f"{path} is damaged: it is cut short, without its end of stream.")

    return stream.schema.names, batches()
