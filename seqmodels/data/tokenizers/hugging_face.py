"""Tokenizers of the Hugging Face hub."""

from collections.abc import Callable
from pathlib import Path

import gin

from seqmodels.data.corpora import Corpus
from seqmodels.data.tokenizers.library import FILE, LibraryTokenizer
from seqmodels.errors import InputError


@gin.register
class HuggingFaceTokenizer(LibraryTokenizer):
    """A tokenizer by its name on the hub, its folder, or its `tokenizer.json`.

    Its normaliser is applied as it is: one that lowers letters loses text, while bits per byte count
    the bytes of the text as it was.
    """

    def __init__(self, name: str = gin.REQUIRED):
        self._name = name

    def prepare(self, corpus: Corpus, cache_dir: Path, say: Callable[[str], None]) -> None:
        if self._library is not None:
            return
        path = Path(self._name).expanduser()
        if path.is_dir():
            path = path / FILE
        if path.is_file() or path.suffix == ".json" or path.name == FILE:
            self._use_file(path)
            return
        from tokenizers import Tokenizer

        try:
            self._use(Tokenizer.from_pretrained(self._name))
        except Exception as error:  # the library raises no narrower type
            raise InputError(
                f"HuggingFaceTokenizer.name = {self._name!r} is no folder here, and the hub does not give it "
                f"({str(error).splitlines()[0]})."
            ) from None
