"""Tokenizers that the `tokenizers` library runs from its `tokenizer.json`."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from seqmodels.data.tokenizers.pieces import pieces
from seqmodels.data.tokenizers.tokenizer import Tokenizer
from seqmodels.errors import InputError

FILE = "tokenizer.json"

_BATCH_BYTES = 1 << 20  # the library takes some hundred bytes a token


class LibraryTokenizer(Tokenizer):
    """Wraps a library tokenizer. One id behind its own is the end of text.

    It adds no start or end token of its own, and text that spells one of its special tokens is text.
    Where its vocabulary lacks a character, the text is refused, not thinned out. A long document is
    taken in `pieces`.
    """

    _library = None

    def decode(self, ids: Sequence[int] | np.ndarray) -> bytes:
        ids = self._checked(ids)
        if self._pieces is None:
            return self._library.decode(ids.tolist(), skip_special_tokens=False).encode()
        return b"".join(map(self._pieces.__getitem__, ids.tolist()))

    def encode_documents(self, documents: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
        run = self._library.encode_batch_fast if self._complete else self._library.encode_batch
        ids, lengths = [np.zeros(0, np.int32)], np.zeros(len(documents), np.int64)
        for numbers, texts in self._batches(documents):
            encoded = run(texts, add_special_tokens=False)
            if not self._complete:
                self._refuse_unknown(texts, encoded)
            for number, encoding in zip(numbers, encoded, strict=True):
                ids.append(np.array(encoding.ids, np.int32))
                lengths[number] += len(ids[-1])
            del encoded  # before the next are made
        return np.concatenate(ids), lengths

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f".{FILE}.partial"
        partial.write_text(self._library.to_str(), encoding="utf-8")
        partial.replace(folder / FILE)

    def restore(self, folder: Path) -> None:
        self._use_file(folder / FILE)

    def _batches(self, documents: Sequence[bytes]) -> Iterator[tuple[list[int], list[str]]]:
        """(number of its document, text) of every piece, some MB at a time."""
        numbers, texts, size = [], [], 0
        for number, document in enumerate(documents):
            for start, piece in pieces(document, self._byte_level):
                numbers.append(number)
                texts.append(_unicode(piece, start))
                size += len(piece)
                if size >= _BATCH_BYTES:
                    yield numbers, texts
                    numbers, texts, size = [], [], 0
        if texts:
            yield numbers, texts

    def _use_file(self, path: Path) -> None:
        """Raises InputError if the file is missing or no tokenizer."""
        from tokenizers import Tokenizer as Library

        if not path.is_file():
            raise InputError(f"there is no tokenizer file {path}.")
        try:
            self._use(Library.from_file(str(path)))
        except Exception as error:  # the library raises no narrower type
            raise InputError(f"{path} is not a file of the `tokenizers` library: {error}.") from None

    def _use(self, library) -> None:
        library.no_truncation()
        library.no_padding()
        library.encode_special_tokens = True
        text = library.to_str()
        about = json.loads(text)
        vocabulary = library.get_vocab()
        self._library = library
        self.vocab_size = max(vocabulary.values()) + 2
        self.fingerprint = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        self._byte_level = '"type": "ByteLevel"' in json.dumps(about["pre_tokenizer"])
        self._pieces = self._byte_pieces(vocabulary, about["added_tokens"]) if self._byte_level else None
        if self._byte_level:
            self._complete = set(_bytes_by_letter()) <= vocabulary.keys()
        else:
            fallback = about["model"].get("byte_fallback", False)
            self._complete = fallback and all(f"<0x{byte:02X}>" in vocabulary for byte in range(256))
        self._unknown = vocabulary.get(about["model"].get("unk_token"))
        self._known: set[str] = set()

    def _byte_pieces(self, vocabulary: dict[str, int], added: list[dict]) -> list[bytes]:
        """The bytes of each id: the library's own decoder would replace those that end inside a character."""
        letters = _bytes_by_letter()
        spelled = {token["id"]: token["content"].encode() for token in added}
        pieces = [b""] * (self.vocab_size - 1)
        for token, index in vocabulary.items():
            pieces[index] = spelled.get(index) or bytes(map(letters.__getitem__, token))
        return pieces

    def _refuse_unknown(self, texts: list[str], encoded: list) -> None:
        """Where there is an unknown token, finds it; where there is none, the library drops characters."""
        if self._unknown is None:
            for character in sorted(set().union(*texts) - self._known):
                if not (character.isspace() or self._has(character)):
                    raise _no_token(character, next(text for text in texts if character in text))
                self._known.add(character)
            return
        for text, encoding in zip(texts, encoded, strict=True):
            if self._unknown in encoding.ids:
                start, end = encoding.offsets[encoding.ids.index(self._unknown)]
                raise _no_token(text[start:end], text)

    def _has(self, character: str) -> bool:
        ids = self._library.encode(character, add_special_tokens=False).ids
        return self.decode(ids) == character.encode() if self._byte_level else len(ids) > 0


def _no_token(characters: str, text: str) -> InputError:
    at = text.index(characters)
    codes = " ".join(f"U+{ord(character):04X}" for character in characters)
    return InputError(
        f"the tokenizer has no token for {characters!r} ({codes}) in {text[max(0, at - 20) : at + 20]!r}: "
        "take one that falls back on bytes, such as BytePairTokenizer."
    )


def _unicode(piece: bytes, start: int) -> str:
    try:
        return piece.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"text that is not UTF-8 (byte {piece[error.start]:#04x} at byte {start + error.start}) needs "
            "ByteTokenizer."
        ) from None


@cache
def _bytes_by_letter() -> dict[str, int]:
    """The byte for which each letter stands in a byte-level vocabulary.

    Printable Latin-1 stands for itself, the other bytes in order for U+0100 and on. (Radford et al.,
    "Language models are unsupervised multitask learners", 2019.)
    """
    own = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in own]
    return {chr(byte): byte for byte in own} | {chr(256 + i): byte for i, byte in enumerate(others)}
