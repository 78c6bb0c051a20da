"""The corpus that every machine has: the source code of Python's standard library."""

import hashlib
import os
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import gin

from seqmodels.data.corpora.corpus import Corpus, Split, content_key, validation_limit
from seqmodels.data.corpora.local_files import unreadable
from seqmodels.errors import InputError

# Tests are long tables of literals; the rest is no part of the library, or differs between machines.
_LEFT_OUT = {"test", "tests", "idle_test", "site-packages", "dist-packages", "lib-dynload", "__pycache__"}
_MACHINE_FILES = ("_sysconfigdata", "sitecustomize", "usercustomize")


@gin.register
class PythonSource(Corpus):
    """The `.py` files of the running Python's standard library, a document a file; no download.

    Code repeats names at every distance, which makes memory visible within minutes. Of equal files
    one is kept.
    """

    def __init__(self, validation_fraction: float = 0.05):
        """validation_fraction: the share of content hashes that is held out."""
        self._fraction = validation_fraction
        self._texts: list[bytes] | None = None

    def documents(self, split: Split) -> Iterator[bytes]:
        texts = self._read()
        limit = validation_limit(
            lambda: iter(texts), self._fraction, "the standard library", "name another Text.corpus"
        )
        return (text for text in texts if (content_key(text) < limit) == (split == "validation"))

    @property
    def fingerprint(self) -> str:
        whole = hashlib.blake2b(f"PythonSource {self._fraction}".encode(), digest_size=16)
        for text in self._read():
            whole.update(hashlib.blake2b(text).digest())
        return whole.hexdigest()

    def describe(self) -> dict[str, object]:
        return {
            "corpus": "PythonSource",
            "python": sysconfig.get_python_version(),
            "validation_fraction": self._fraction,
        }

    def _read(self) -> list[bytes]:
        """The texts in the order of their paths inside the library, each content once."""
        if self._texts is None:
            library = Path(sysconfig.get_path("stdlib"))
            texts = (_content(library / name) for name in sorted(_names(library)))
            self._texts = [text for text in dict.fromkeys(texts) if text]
            if not self._texts:
                raise InputError(f"PythonSource found no .py file in the standard library at {library}.")
        return self._texts


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from None


def _names(library: Path) -> Iterator[str]:
    """Paths inside the library, with forward slashes."""
    for folder, folders, files in os.walk(library):
        folders[:] = [name for name in folders if name not in _LEFT_OUT]
        for file in files:
            if file.endswith(".py") and not file.startswith(_MACHINE_FILES):
                yield (Path(folder) / file).relative_to(library).as_posix()
