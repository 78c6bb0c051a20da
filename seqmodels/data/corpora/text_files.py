"""A corpus of files on this machine."""

import hashlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import gin

from seqmodels.data.corpora.corpus import Corpus, Split, content_key, validation_limit
from seqmodels.data.corpora.documents import DocumentUnit, is_json_lines, read_documents
from seqmodels.data.corpora.local_files import file_state, find_files, hash_files
from seqmodels.errors import InputError

_Files = dict[Path, tuple[int, int, int]]


@gin.register
class TextFiles(Corpus):
    """Documents from files of plain text, JSON lines, Parquet or Arrow, as they are or in gzip or zstd.

    Validation is text of its own, or a share of the documents, held out by the hash of their content: copies
    are on one side, and a copy is what has the same bytes. Another line end makes another document.
    """

    def __init__(
        self,
        train: str | tuple[str, ...] = gin.REQUIRED,
        validation: str | tuple[str, ...] | None = None,
        validation_fraction: float = 0.05,
        document: DocumentUnit = "file",
        text_field: str = "text",
    ):
        """
        Args:
            train: files, folders or patterns (`**` for folders below), from the working directory; see
                `local_files.find_files`.
            validation: the same for validation; None holds out documents of `train`.
            validation_fraction: the share held out then.
            document: "file" keeps every byte of a plain text file as one document; "line" makes each
                line a document, without its end, and leaves out empty ones. In JSON lines, Parquet and
                Arrow a document is a record.
            text_field: the name of the text in a record.
        """
        self._train, self._validation, self._fraction = train, validation, validation_fraction
        self._unit, self._text_field = document, text_field

    def documents(self, split: Split) -> Iterator[bytes]:
        if self._validation is not None:
            yield from self._read(self._files[split])
            return
        limit = self._limit
        for document in self._read(self._files["train"]):
            if (content_key(document) < limit) == (split == "validation"):
                yield document

    @cached_property
    def fingerprint(self) -> str:
        made_of: list = ["TextFiles", self._fraction, self._unit, self._text_field]
        for files in self._files.values():
            made_of += [hash_files(list(files)), [is_json_lines(path) for path in files]]
            for path, state in files.items():
                _check_unchanged(path, state)
        return hashlib.blake2b(repr(made_of).encode(), digest_size=16).hexdigest()

    def describe(self) -> dict[str, object]:
        about = {"corpus": "TextFiles", "train": self._train, "document": self._unit}
        if self._validation is None:
            return about | {"validation_fraction": self._fraction}
        return about | {"validation": self._validation}

    @cached_property
    def _files(self) -> dict[Split, _Files]:
        """The files of each split, in order, each in the state in which it was found."""
        files = {"train": _found(self._train, "TextFiles.train")}
        if self._validation is not None:
            files["validation"] = _found(self._validation, "TextFiles.validation")
            train = {path.resolve() for path in files["train"]}
            for path in files["validation"]:
                if path.resolve() in train:
                    raise InputError(f"{path} is named by TextFiles.train and TextFiles.validation both.")
        return files

    @cached_property
    def _limit(self) -> int:
        files = self._files["train"]
        found = f"{len(files)} file{'s' * (len(files) != 1)} by TextFiles.train = {self._train!r}"
        advice = "name other text with TextFiles.validation, or set TextFiles.document = 'line'"
        return validation_limit(lambda: self._read(files), self._fraction, found, advice)

    def _read(self, files: _Files) -> Iterator[bytes]:
        for path, state in files.items():
            yield from read_documents(path, self._unit, self._text_field)
            _check_unchanged(path, state)


def _found(patterns: str | tuple[str, ...], setting: str) -> _Files:
    return {path: file_state(path) for path in find_files(patterns, setting)}


def _check_unchanged(path: Path, state: tuple[int, int, int]) -> None:
    """Else tokens of what a file holds now would be kept under the hash of what it held before."""
    if file_state(path) != state:
        raise InputError(f"{path} changed while it was read: start again once nothing writes to it.")
