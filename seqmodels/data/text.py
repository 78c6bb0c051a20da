"""Text as training data: a corpus, a tokenizer, and the token store they make."""

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import gin

from seqmodels.data.corpora import Corpus
from seqmodels.data.packing import PackedRows, PackedStream
from seqmodels.data.token_store import FORMAT, TokenStore, write_store
from seqmodels.data.tokenizers import ByteTokenizer, Tokenizer
from seqmodels.errors import InputError


@gin.register
class Text:
    """Packed rows of a tokenised corpus, and the corpus's two token stores.

    `prepare` comes first; then `train`, `validation`, `vocab_size`, `fingerprint` and `stream` are there.

    Attributes:
        train, validation: the token stores; no document of validation is also in training.
        tokenizer: what made them.
        fingerprint: a hash of content, tokenizer and settings.
    """

    kind = "text"

    def __init__(self, corpus: Corpus = gin.REQUIRED, tokenizer: Tokenizer | None = None):
        """tokenizer: bytes if not given."""
        self.corpus = corpus
        self.tokenizer = ByteTokenizer() if tokenizer is None else tokenizer

    @property
    def vocab_size(self) -> int:
        """Token ids lie below it; the last is the end of text."""
        return self.tokenizer.vocab_size

    def prepare(self, cache_dir: Path | None = None, say: Callable[[str], None] = print) -> None:
        """Tokenises the corpus, or finds that an earlier run did.

        cache_dir: where token stores are kept; by default $SEQMODELS_CACHE, else ~/.cache/seqmodels.

        Raises:
            InputError: the corpus cannot be read, holds no text, or leaves nothing for validation.
        """
        cache = cache_folder(cache_dir)
        self.tokenizer.prepare(self.corpus, cache, say)
        made_of = f"{FORMAT} {self.corpus.fingerprint} {self.tokenizer.fingerprint}"
        self.fingerprint = hashlib.blake2b(made_of.encode(), digest_size=16).hexdigest()
        folder = cache / "tokens" / self.fingerprint
        if folder.exists():
            say(f"tokens: found {folder}")
        else:
            self._tokenise(folder, say)
        self.train, self.validation = TokenStore(folder / "train"), TokenStore(folder / "validation")

    def describe(self) -> dict[str, object]:
        """What the data is and how much of it there is."""
        about = dict(self.corpus.describe(), tokenizer=type(self.tokenizer).__name__, vocab_size=self.vocab_size)
        for split, store in (("train", self.train), ("validation", self.validation)):
            about[f"{split}_documents"] = len(store)
            about[f"{split}_tokens"] = len(store.tokens)
            about[f"{split}_bytes"] = store.text_bytes
            about |= {f"{split}_skipped ({reason})": count for reason, count in store.skipped.items()}
        return about

    def stream(
        self, batch_size: int, row_length: int, seed: int, process_index: int = 0, process_count: int = 1
    ) -> PackedStream:
        """Training batches without end; `batch_size` counts the rows of all processes."""
        rows = PackedRows(self.train, row_length, self.tokenizer.end_id, seed)
        return PackedStream(rows, batch_size, process_index, process_count)

    def _tokenise(self, folder: Path, say: Callable[[str], None]) -> None:
        """Builds both stores beside their place and moves them there in one step, whoever else does the same."""
        began = time.perf_counter()
        work = _work_folder(folder)
        try:
            train = write_store(work / "train", self.corpus.documents("train"), self.tokenizer)
            if not len(train):
                raise InputError("the training corpus is empty: no document holds any text.")
            validation = write_store(
                work / "validation", self.corpus.documents("validation"), self.tokenizer, without=train
            )
            if not len(validation):
                why = "every one of its documents is also in training" if validation.skipped else "it holds no text"
                raise InputError(f"nothing is left for validation: {why}.")
            try:
                os.rename(work, folder)
            except OSError:
                if not folder.exists():
                    raise
        finally:
            shutil.rmtree(work, ignore_errors=True)
        seconds = time.perf_counter() - began
        for name, store in (("training", train), ("validation", validation)):
            left_out = "".join(f", {count} {reason} left out" for reason, count in store.skipped.items())
            size = f"{len(store):,} documents, {store.text_bytes:,} bytes, {len(store.tokens):,} tokens"
            say(f"tokens: {name} {size}{left_out}")
        say(f"tokens: written to {folder} in {seconds:.1f} s")


def cache_folder(cache_dir: Path | None) -> Path:
    """The folder for what can be made again: the argument, else $SEQMODELS_CACHE, else ~/.cache/seqmodels."""
    return Path(cache_dir or os.environ.get("SEQMODELS_CACHE") or Path.home() / ".cache" / "seqmodels")


def _work_folder(folder: Path) -> Path:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="making-", dir=folder.parent))
    except OSError as error:
        raise InputError(
            f"cannot write the token cache {folder.parent} ({error.strerror}): "
            "set SEQMODELS_CACHE to a folder that can be written."
        ) from None
