"""What a corpus is: documents of UTF-8 text, in training and validation, that share no content."""

import abc
import hashlib
from collections.abc import Callable, Iterator
from typing import Literal

from seqmodels.errors import InputError

Split = Literal["train", "validation"]


class Corpus(abc.ABC):
    """Documents as bytes of UTF-8 text. An empty one stands for a record without text, and is counted."""

    streaming = False
    """Whether training documents are read as they are needed, not tokenised beforehand. Such a corpus has
    `stream() -> DocumentStream` (see `data.streaming`) and `shuffle_window`, how many to shuffle at once."""

    @abc.abstractmethod
    def documents(self, split: Split) -> Iterator[bytes]:
        """The documents of a split, in an order that depends on the corpus alone."""

    @property
    @abc.abstractmethod
    def fingerprint(self) -> str:
        """A hash of the content and of the settings that decide which documents there are."""

    @abc.abstractmethod
    def describe(self) -> dict[str, object]:
        """Name and settings, for the log and the run's record."""


def content_key(document: bytes) -> int:
    """A document's 64-bit content hash: it decides its split, and finds its copies."""
    return int.from_bytes(hashlib.blake2b(document, digest_size=8).digest(), "little")


def validation_limit(
    documents: Callable[[], Iterator[bytes]], fraction: float, found: str, advice: str
) -> int:
    """The content hash below which a document is held out for validation.

    A document's side depends on its own content, so its copies are on the same side, whatever their
    file or order. The limit is `fraction` of all hashes, moved just so far that neither side is empty
    in a corpus of a few documents.

    Raises:
        InputError: the fraction is not between 0 and 1, or there are no two different documents to
            part; `found` says what was read, and `advice` what to set then.
    """
    if not 0 < fraction < 1:
        raise InputError(f"validation_fraction = {fraction} should lie between 0 and 1.")
    limit = int(fraction * 2**64)
    lowest, highest = 2**64, -1
    for document in filter(None, documents()):
        key = content_key(document)
        lowest, highest = min(lowest, key), max(highest, key)
        if lowest < limit <= highest:
            return limit
    if highest < 0:
        raise InputError(f"the corpus is empty: no document of {found} holds any text.")
    if lowest == highest:
        raise InputError(
            "the corpus is a single document, which cannot serve as training and validation both: "
            f"{advice} (found {found})."
        )
    return min(max(limit, lowest + 1), highest)
