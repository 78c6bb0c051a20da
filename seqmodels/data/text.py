"""Text as training data: a corpus, a tokenizer, and the token stores that they make."""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gin

from seqmodels.data.cache import cache_folder, work_folder
from seqmodels.data.corpora import Corpus
from seqmodels.data.packing import PackedRows, PackedStream
from seqmodels.data.streaming import StreamedRows
from seqmodels.data.token_store import FORMAT, TokenStore, check_store, write_store
from seqmodels.data.tokenizers import ByteTokenizer, Tokenizer
from seqmodels.errors import InputError


@gin.register
class Text:
    """Rows of text for training, and text for validation, which share no document.

    Attributes, from `prepare` on:
        train: the token store of training; None for a corpus that streams.
        validation: the token store of validation.
        fingerprint: a hash of content, tokenizer and settings.
        vocab_size: token ids lie below it; the last one is the end of text.
    """

    kind = "text"

    def __init__(self, corpus: Corpus = gin.REQUIRED, tokenizer: Tokenizer | None = None):
        """tokenizer: by default the bytes of the text."""
        self.corpus = corpus
        self.tokenizer = ByteTokenizer() if tokenizer is None else tokenizer

    @property
    def vocab_size(self) -> int:
        return self.tokenizer.vocab_size

    @property
    def bytes_per_token(self) -> float:
        """Bytes of text a target, ends of text included; of validation where training streams."""
        store = self.validation if self.train is None else self.train
        return store.text_bytes / (len(store.tokens) + len(store))

    def prepare(self, cache_dir: Path | None = None, say: Callable[[str], None] = print) -> None:
        """Tokenises the corpus, or finds that an earlier run did.

        cache_dir: where tokens are kept; by default $SEQMODELS_CACHE, else ~/.cache/seqmodels.

        Raises:
            InputError: the corpus cannot be read, holds no text, or leaves none for validation; the tokens
                cannot be written, or are no longer what was written.
        """
        cache = cache_folder(cache_dir)
        self.tokenizer.prepare(self.corpus, cache, say)
        made_of = f"{FORMAT} {self.corpus.fingerprint} {self.tokenizer.fingerprint}"
        self.fingerprint = hashlib.blake2b(made_of.encode(), digest_size=16).hexdigest()
        folder = cache / "tokens" / self.fingerprint
        if folder.exists():
            say(f"tokens: found {folder}")
            for split in ("validation",) if self.corpus.streaming else ("train", "validation"):
                check_store(folder / split)
        else:
            self._tokenise(folder, say)
        self.train = None if self.corpus.streaming else TokenStore(folder / "train")
        self.validation = TokenStore(folder / "validation")

    def describe(self) -> dict[str, object]:
        """What the data is, and how much of it there is."""
        about = self.corpus.describe()
        about |= {"tokenizer": type(self.tokenizer).__name__, "vocab_size": self.vocab_size}
        for split, store in (("train", self.train), ("validation", self.validation)):
            if store is not None:
                about |= {f"{split}_{name}": number for name, number in store.describe().items()}
        return about

    def stream(
        self, batch_size: int, row_length: int, seed: int, process_index: int = 0, process_count: int = 1
    ) -> PackedStream | StreamedRows:
        """Training batches without end; batch_size counts the rows of all processes."""
        share = (process_index, process_count)
        if self.train is None:
            documents, window = self.corpus.stream(), self.corpus.shuffle_window
            return StreamedRows(documents, self.tokenizer, batch_size, row_length, seed, window, *share)
        rows = PackedRows(self.train, row_length, self.tokenizer.end_id, seed)
        return PackedStream(rows, batch_size, *share)

    def _tokenise(self, folder: Path, say: Callable[[str], None]) -> None:
        """Writes the stores beside their place and moves them there at once, whoever else does the same."""
        began = time.perf_counter()
        with work_folder(folder) as work:
            train = None
            if not self.corpus.streaming:
                train = write_store(work / "train", self.corpus.documents("train"), self.tokenizer)
                _report("training", train, say)
            held_out = self.corpus.documents("validation")
            validation = write_store(work / "validation", held_out, self.tokenizer, without=train)
            _report("validation", validation, say)
            try:
                work.rename(folder)
            except OSError:
                if not folder.exists():
                    raise
        say(f"tokens: written to {folder} in {time.perf_counter() - began:.1f} s")


def text_of(data: Any) -> Text | None:
    """The text that a data source is, or holds among its parts; None where it has none."""
    return data if data.kind == "text" else getattr(data, "text", None)


def _report(split: str, store: TokenStore, say: Callable[[str], None]) -> None:
    """Says what a store holds; raises InputError if that is nothing."""
    left_out = "".join(f"; left out: {count:,} {reason}" for reason, count in store.skipped.items())
    if not len(store):
        raise InputError(f"the {split} corpus is empty: no document holds text of its own{left_out}.")
    size = f"{len(store):,} documents, {store.text_bytes:,} bytes, {len(store.tokens):,} tokens"
    say(f"tokens: {split} has {size}{left_out}")
