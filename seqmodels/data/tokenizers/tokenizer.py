"""What a tokenizer is: bytes of text to ids and back, and one id of its own that stands between documents."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from seqmodels.data.corpora import Corpus
from seqmodels.errors import InputError


class Tokenizer:
    """Ids 0 .. vocab_size - 2 are text. The last, `end_id`, is the end of text, and no text encodes to it."""

    vocab_size: int
    """All ids, the end-of-text id included."""
    fingerprint: str
    """What the ids depend on, for the key of a token store."""

    @property
    def end_id(self) -> int:
        return self.vocab_size - 1

    def encode(self, text: bytes) -> np.ndarray:
        """The ids of a text, one-dimensional; nothing is added at its ends."""
        return self.encode_documents([text])[0]

    def decode(self, ids: Sequence[int] | np.ndarray) -> bytes:
        """The text of ids; the end-of-text id stands for no text."""
        raise NotImplementedError

    def encode_documents(self, documents: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
        """(ids of all documents end to end, number of ids of each)."""
        raise NotImplementedError

    def prepare(self, corpus: Corpus, cache_dir: Path, say: Callable[[str], None]) -> None:
        """Makes a tokenizer that is read from a file or learned from a corpus ready."""

    def save(self, folder: Path) -> None:
        """Writes what `restore` needs into a folder; nothing where the settings say it all."""

    def restore(self, folder: Path) -> None:
        """Takes what `save` wrote, in place of `prepare`."""

    def _checked(self, ids: Sequence[int] | np.ndarray) -> np.ndarray:
        """The ids that stand for text, as int64.

        Raises:
            InputError: an id is outside the vocabulary.
        """
        ids = np.asarray(ids, np.int64).reshape(-1)
        wrong = ids[(ids < 0) | (ids >= self.vocab_size)]
        if wrong.size:
            raise InputError(f"token id {wrong[0]} is outside the vocabulary of {self.vocab_size} ids.")
        return ids[ids != self.end_id]
