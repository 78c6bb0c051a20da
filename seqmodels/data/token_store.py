"""A corpus as token ids on disk: written once in bounded memory, read through a memory map."""

import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from seqmodels.data.corpora.corpus import content_key
from seqmodels.data.tokenizers import Tokenizer
from seqmodels.errors import InputError

FORMAT = 2
"""Version of the files below; part of every store's key, so that an old store is never misread."""

_FILES = ("tokens.bin", "offsets.npy", "document_bytes.npy", "content_keys.npy")
_CHUNK_BYTES, _CHUNK_DOCUMENTS = 4 << 20, 1 << 14


class TokenStore:
    """The token ids of documents laid end to end; the end-of-text id is not stored.

    Attributes:
        tokens: uint16 or uint32, whichever holds the vocabulary; a memory map.
        offsets: int64, one more than there are documents; document d is `tokens[offsets[d]:offsets[d + 1]]`.
        document_bytes: int64, the bytes of each document's text.
        content_keys: uint64, the content hash of each document.
        vocab_size: ids lie below it.
        skipped: the documents that were left out, counted by reason.
    """

    def __init__(self, folder: Path):
        """Opens the store in a folder.

        Raises:
            InputError: a file is missing or is not what the store's own description says.
        """
        about = _description(folder)
        dtype = np.dtype(about["dtype"])
        try:
            self.offsets = np.load(folder / "offsets.npy", mmap_mode="r")
            self.document_bytes = np.load(folder / "document_bytes.npy", mmap_mode="r")
            self.content_keys = np.load(folder / "content_keys.npy", mmap_mode="r")
            size = (folder / "tokens.bin").stat().st_size
        except (OSError, EOFError, ValueError) as error:
            raise _damaged(folder, error) from None
        count = int(self.offsets[-1])
        if size != count * dtype.itemsize:
            raise InputError(
                f"{folder / 'tokens.bin'} has {size} bytes, and {count} tokens of {dtype} take "
                f"{count * dtype.itemsize}: delete {folder} to have it made again."
            )
        self.tokens = np.memmap(folder / "tokens.bin", dtype, "r") if count else np.zeros(0, dtype)
        self.vocab_size: int = about["vocab_size"]
        self.skipped: dict[str, int] = about["skipped"]

    def __len__(self) -> int:
        """The number of documents."""
        return len(self.offsets) - 1

    @property
    def text_bytes(self) -> int:
        """The bytes of text in all documents."""
        return int(self.document_bytes.sum())

    def describe(self) -> dict[str, object]:
        """How much there is."""
        return {
            "documents": len(self),
            "tokens": len(self.tokens),
            "bytes": self.text_bytes,
            "left_out": self.skipped,
        }

    def document(self, index: int) -> np.ndarray:
        """The token ids of one document."""
        return self.tokens[self.offsets[index] : self.offsets[index + 1]]


def check_store(folder: Path) -> None:
    """Reads a store's files through, and compares them with the checksums they were written with.

    Raises:
        InputError: a file is missing, or is no longer what was written.
    """
    for name, written in _description(folder)["checksums"].items():
        try:
            found = _checksum(folder / name)
        except OSError as error:
            raise _damaged(folder, error) from None
        if found != written:
            raise _damaged(folder, f"{name} is not what was written")


def write_store(
    folder: Path, documents: Iterable[bytes], tokenizer: Tokenizer, *, without: TokenStore | None = None
) -> TokenStore:
    """Tokenises documents into a new folder, some MB of whole documents at a time, and opens it.

    Documents without text are left out, and so are those that `without` holds: both are counted.

    Raises:
        InputError: the tokenizer gave an id outside its own vocabulary.
    """
    dtype = np.dtype(np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.uint32)
    known = np.unique(without.content_keys) if without is not None else np.zeros(0, np.uint64)
    lengths, sizes, keys = [], [], []
    skipped = {"without text": 0, "also in training": 0}
    folder.mkdir(parents=True)
    with open(folder / "tokens.bin", "wb") as file:
        for chunk in _chunks(documents):
            chunk_keys = np.fromiter(map(content_key, chunk), np.uint64, len(chunk))
            seen = np.isin(chunk_keys, known)
            skipped["also in training"] += int(seen.sum())
            if seen.any():
                chunk = [document for document, drop in zip(chunk, seen, strict=True) if not drop]
            ids, counts = tokenizer.encode_documents(chunk)
            _check_ids(ids, counts, tokenizer.vocab_size, first=sum(map(len, lengths)))
            full = counts > 0
            skipped["without text"] += int((~full).sum())
            for start in range(0, len(ids), _CHUNK_BYTES):
                file.write(ids[start : start + _CHUNK_BYTES].astype(dtype))
            lengths.append(counts[full])
            sizes.append(np.fromiter(map(len, chunk), np.int64, len(chunk))[full])
            keys.append(chunk_keys[~seen][full])
    lengths = np.concatenate([np.zeros(1, np.int64), *lengths])
    np.save(folder / "offsets.npy", np.cumsum(lengths))
    np.save(folder / "document_bytes.npy", np.concatenate([np.zeros(0, np.int64), *sizes]))
    np.save(folder / "content_keys.npy", np.concatenate([np.zeros(0, np.uint64), *keys]))
    about = {
        "format": FORMAT,
        "dtype": dtype.name,
        "vocab_size": tokenizer.vocab_size,
        "skipped": {reason: count for reason, count in skipped.items() if count},
        "checksums": {name: _checksum(folder / name) for name in _FILES},
    }
    (folder / "store.json").write_text(json.dumps(about, indent=1))
    return TokenStore(folder)


def _description(folder: Path) -> dict:
    """What a store says of itself."""
    try:
        about = json.loads((folder / "store.json").read_text())
        if about["format"] != FORMAT:
            raise InputError(f"the token store {folder} has format {about['format']}, and not {FORMAT}.")
        if about["dtype"] not in ("uint16", "uint32") or set(about["checksums"]) != set(_FILES):
            raise ValueError("store.json is not what was written")
        return {name: about[name] for name in ("dtype", "vocab_size", "skipped", "checksums")}
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _damaged(folder, error) from None


def _damaged(folder: Path, reason: object) -> InputError:
    return InputError(f"the token store {folder} is damaged ({reason}): delete it to have it made again.")


def _checksum(path: Path) -> int:
    checksum = 0
    with open(path, "rb") as file:
        while piece := file.read(_CHUNK_BYTES):
            checksum = zlib.crc32(piece, checksum)
    return checksum


def _chunks(documents: Iterable[bytes]) -> Iterator[list[bytes]]:
    chunk, size = [], 0
    for document in documents:
        chunk.append(document)
        size += len(document)
        if size >= _CHUNK_BYTES or len(chunk) == _CHUNK_DOCUMENTS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _check_ids(ids: np.ndarray, counts: np.ndarray, vocab_size: int, first: int) -> None:
    """Refuses an id outside the vocabulary before it is narrowed: a cast would wrap it into another token."""
    if not ids.size or (ids.min() >= 0 and ids.max() < vocab_size):
        return
    at = int(np.argmax((ids < 0) | (ids >= vocab_size)))
    document = first + int(np.searchsorted(np.cumsum(counts), at, "right"))
    raise InputError(
        f"document {document} holds token id {ids[at]}, which is outside the vocabulary of {vocab_size} ids."
    )
