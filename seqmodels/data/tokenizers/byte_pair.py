"""Byte-level byte-pair encoding, learned from the corpus."""

import hashlib
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import gin

from seqmodels.data.cache import work_folder
from seqmodels.data.corpora import Corpus
from seqmodels.data.tokenizers.library import LibraryTokenizer
from seqmodels.errors import InputError

# Merging takes the square of the length of what has no border inside: a MB of base64 would take days.
_LONG_RUN = re.compile(r"\S{256}(?=\S)|\s{256}(?=\s)")


@gin.register
class BytePairTokenizer(LibraryTokenizer):
    """Merges of frequent neighbours, down from the 256 bytes: nothing is unknown, and nothing is lost.

    Learned once from the training split and kept in the cache. (Sennrich, Haddow, Birch, "Neural
    machine translation of rare words with subword units", ACL 2016.)
    """

    def __init__(self, vocab_size: int = 1024, file: str | None = None, training_bytes: int = 20_000_000):
        """
        Args:
            vocab_size: ids, the end of text included; fewer if the text has no more pairs to merge.
            file: a byte-level `tokenizer.json` to take instead; then the other two do not count.
            training_bytes: how much text it is learned from, from the start of the training split.
        """
        for setting, number, least in (
            ("vocab_size", vocab_size, 257),
            ("training_bytes", training_bytes, 1),
        ):
            if number < least:
                raise InputError(f"BytePairTokenizer.{setting} = {number} should be at least {least}.")
        self._wanted, self._file, self._training_bytes = vocab_size, file, training_bytes

    def prepare(self, corpus: Corpus, cache_dir: Path, say: Callable[[str], None]) -> None:
        if self._library is not None:
            return
        if self._file is not None:
            self._use_file(Path(self._file).expanduser())
            if not (self._byte_level and self._complete):
                raise InputError(
                    f"{self._file} is not byte-level with all 256 bytes: load it with HuggingFaceTokenizer."
                )
            return
        made_of = f"{self._wanted} {self._training_bytes} {corpus.fingerprint}"
        name = hashlib.blake2b(made_of.encode(), digest_size=16).hexdigest()
        path = cache_dir / "tokenizers" / f"{name}.json"
        if not path.exists():
            self._learn(corpus, path, say)
        else:
            say(f"tokenizer: found {path}")
        self._use_file(path)

    def _learn(self, corpus: Corpus, path: Path, say: Callable[[str], None]) -> None:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

        began = time.perf_counter()
        library = Tokenizer(models.BPE())
        library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        library.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            # It makes room for all of them at once; there can be no more merges than there are bytes.
            vocab_size=min(self._wanted - 1, 256 + self._training_bytes),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        library.train_from_iterator(self._sample(corpus), trainer)
        with work_folder(path) as work:
            (work / path.name).write_text(library.to_str(), encoding="utf-8")
            (work / path.name).replace(path)
        size, seconds = library.get_vocab_size() + 1, time.perf_counter() - began
        short = "" if size == self._wanted else f" (the text has no pairs for {self._wanted})"
        say(f"tokenizer: learned {size} ids{short} in {seconds:.1f} s, written to {path}")

    def _sample(self, corpus: Corpus) -> Iterator[str]:
        """Text from the start of the training split, cut inside long runs without a space."""
        left = self._training_bytes
        for document in corpus.documents("train"):
            text, start = document[:left].decode(errors="ignore"), 0
            for run in _LONG_RUN.finditer(text):
                yield text[start : run.end()]
                start = run.end()
            yield text[start:]
            left -= len(document)
            if left <= 0:
                return
