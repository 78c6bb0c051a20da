"""What a tokenizer is: bytes of text to ids and back, and one id of its own that stands between documents."""

import abc
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from seqmodels.data.corpora import Corpus
from seqmodels.errors import InputError


class Tokenizer(abc.ABC):
    """Ids 0 .. vocab_size - 2 are text; the last id, `end_id`, is the end of text and no text encodes to it."""

    vocab_size: int
    """All ids, the end-of-text id included."""
    fingerprint: str
    """What the ids depend on, for the key of a token store."""

    @property
    def end_id(self) -> int:
        return self.vocab_size - 1

    @abc.abstractmethod
    def encode(self, text: bytes) -> np.ndarray:
        """The ids of a text, one-dimensional; without the end-of-text id or any other that the text does not hold."""

    @abc.abstractmethod
    def decode(self, ids: Sequence[int] | np.ndarray) -> bytes:
        """The text of ids; the end-of-text id stands for no text."""

    def encode_documents(self, documents: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
        """(ids of all documents end to end, number of ids of each)."""
        encoded = [self.encode(document) for document in documents]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        return (np.concatenate(encoded) if encoded else np.zeros(0, np.int64)), lengths

    def prepare(self, corpus: Corpus, cache_dir: Path, say: Callable[[str], None]) -> None:
        """Makes a tokenizer that learns from a corpus ready; the others are ready from the start."""

    def save(self, folder: Path) -> None:
        """Writes what `restore` needs into a folder; nothing where the settings say it all."""

    def restore(self, folder: Path) -> None:
        """Takes what `save` wrote, in place of learning it from the corpus again."""

    def check(self, ids: Sequence[int] | np.ndarray) -> np.ndarray:
        """The ids as an int64 array.

        Raises:
            InputError: an id is outside the vocabulary.
        """
        ids = np.asarray(ids, np.int64).reshape(-1)
        wrong = ids[(ids < 0) | (ids >= self.vocab_size)]
        if wrong.size:
            raise InputError(f"token id {wrong[0]} is outside the vocabulary of {self.vocab_size} ids.")
        return ids
