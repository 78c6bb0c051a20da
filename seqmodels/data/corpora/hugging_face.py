"""A corpus of the Hugging Face `datasets` library."""

import hashlib
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import chain, islice

import gin

from seqmodels.data.corpora.corpus import Corpus, Split, content_key, validation_limit
from seqmodels.data.corpora.hugging_face_source import FORMATS, Source, check_exact, described, load, reason
from seqmodels.data.corpora.local_files import hash_files
from seqmodels.errors import InputError

_SAMPLE = 100


@gin.register
class HuggingFace(Corpus):
    """A data set by its name on the hub, a folder written by `save_to_disk`, or local files of a format.

    A map-style data set is tokenised once. With `streaming`, training documents are read as they are
    needed: nothing is kept on disk but the validation documents.
    """

    def __init__(
        self,
        path: str = gin.REQUIRED,
        name: str | None = None,
        data_files: str | tuple[str, ...] | None = None,
        split: str = "train",
        validation_split: str | None = None,
        validation_fraction: float = 0.05,
        text_field: str = "text",
        streaming: bool = False,
        validation_documents: int = 1000,
        shuffle_window: int = 1024,
    ):
        """
        Args:
            path: a name on the hub, a folder, or "json", "parquet" or "arrow" for `data_files`.
            name: the configuration of a data set that has several.
            data_files: paths or patterns of local files.
            split: the split to train on.
            validation_split: the split for validation; None holds out documents of `split`.
            validation_fraction: the share held out then, by the hash of their content.
            text_field: the column of the text.
            streaming: read training documents as they are needed.
            validation_documents: then, the most documents that are kept for validation.
            shuffle_window: then, how many documents in a row are put into a random order together.
        """
        if validation_split == split:
            raise InputError(f"HuggingFace.split and validation_split are both {split!r}.")
        least_one = {"validation_documents": validation_documents, "shuffle_window": shuffle_window}
        for setting, number in least_one.items():
            if number < 1:
                raise InputError(f"HuggingFace.{setting} = {number} should be at least 1.")
        check_exact(path, path)
        if path in FORMATS and not data_files:  # the library would read the working directory
            raise InputError(f"HuggingFace.data_files must be given with HuggingFace.path = {path!r}.")
        self.streaming, self.shuffle_window = streaming, shuffle_window
        self._path, self._name, self._split, self._validation_split = path, name, split, validation_split
        self._data_files = [data_files] if isinstance(data_files, str) else data_files
        self._fraction, self._validation_documents = validation_fraction, validation_documents
        self._text_field = text_field

    def documents(self, split: Split) -> Iterator[bytes]:
        if split == "train":
            yield from (text for text in self._texts(self._train) if self._is_training(text))
        elif not self.streaming:
            yield from self._held_out()
        else:
            yield from islice(filter(None, self._held_out()), self._validation_documents)

    @cached_property
    def fingerprint(self) -> str:
        """Of every document; when streaming, of the settings and the bytes of local files, or elsewhere of
        the first documents of training and of those that are kept for validation.
        """
        made_of: list = ["HuggingFace", self._validation_split is None, self._fraction, self.streaming]
        splits = {self._split: self._train}
        if self._validation is not None:
            splits[self._validation_split] = self._validation
        if self.streaming:
            made_of += [self._validation_documents, self.shuffle_window]
            files = self._source.files
            if files is not None:
                made_of += [self._text_field, *(hash_files(files[split]) for split in splits)]
                return hashlib.blake2b(repr(made_of).encode(), digest_size=16).hexdigest()
        whole = hashlib.blake2b(repr(made_of).encode(), digest_size=16)
        read = [islice(self._texts(data), _SAMPLE if self.streaming else None) for data in splits.values()]
        if self.streaming:
            read.append(self.documents("validation"))
        for text in chain.from_iterable(read):
            whole.update(content_key(text).to_bytes(8, "little"))
        return whole.hexdigest()

    def describe(self) -> dict[str, object]:
        return {
            "corpus": "HuggingFace",
            "path": self._path,
            "name": self._name,
            "data_files": self._data_files,
            "split": self._split,
            "validation_split": self._validation_split,
            "validation_fraction": self._fraction,
            "text_field": self._text_field,
            "streaming": self.streaming,
        }

    def stream(self) -> "HuggingFaceStream":
        """The training documents from the first one on, with a position that can be saved."""
        return HuggingFaceStream(self._column(self._load(), self._split), self._read, self._is_training)

    def _held_out(self) -> Iterator[bytes]:
        if self._validation is not None:
            return self._texts(self._validation)
        return (text for text in self._texts(self._train) if not self._is_training(text))

    def _is_training(self, text: bytes) -> bool:
        if self._validation_split is None:
            return content_key(text) >= self._limit
        return not self.streaming or content_key(text) not in self._kept_for_validation

    @cached_property
    def _kept_for_validation(self) -> set[int]:
        return set(map(content_key, self.documents("validation")))

    @cached_property
    def _limit(self) -> int:
        found, advice = f"the split {self._split!r}", "name a HuggingFace.validation_split"
        return validation_limit(lambda: self._texts(self._train), self._fraction, found, advice)

    @cached_property
    def _train(self):
        return self._column(self._source, self._split)

    @cached_property
    def _validation(self):
        return None if self._validation_split is None else self._column(self._source, self._validation_split)

    @cached_property
    def _source(self) -> Source:
        return self._load()

    def _load(self) -> Source:
        return load(self._path, self._name, self._data_files, self.streaming)

    def _texts(self, dataset) -> Iterator[bytes]:
        return self._read(iter(dataset))

    def _column(self, source: Source, split: str):
        """A split with the text column alone."""
        splits = source.splits
        if split not in splits:
            raise InputError(f"{self._path} has no split {split!r}; it has {', '.join(map(repr, splits))}.")
        columns = splits[split].column_names
        if columns is not None and self._text_field not in columns:
            raise InputError(
                f"{self._path} has no column {self._text_field!r}: HuggingFace.text_field should be one of "
                f"{columns}."
            )
        return splits[split].select_columns([self._text_field])

    def _read(self, records: Iterator[dict]) -> Iterator[bytes]:
        """The texts of records; empty ones where there is none."""
        found = f"HuggingFace, {described(self._path, self._name, self._data_files)}"
        row = 0
        try:
            for row, record in enumerate(records):
                text = record.get(self._text_field)
                if not isinstance(text, str | None):
                    kind = type(text).__name__
                    raise InputError(
                        f"{found}, record {row}: {self._text_field!r} is {kind}, and should be text."
                    )
                yield b"" if text is None else text.encode()
        except InputError:
            raise
        except Exception as error:  # as many types as in loading: files are opened and fetched here too
            raise InputError(f"{found} cannot be read past record {row}: {reason(error)}") from None


class HuggingFaceStream:
    """Documents of one pass over a streamed split; `state` is exact at any document."""

    def __init__(self, dataset, read: Callable[[Iterator[dict]], Iterator[bytes]], wanted):
        self._dataset, self._read, self._wanted = dataset, read, wanted
        self._start = dataset.state_dict()
        # The position until a document is read: only then the library takes over the one it was given.
        self._unread: dict | None = self._start
        self._texts = read(iter(dataset))

    def __iter__(self) -> "HuggingFaceStream":
        return self

    def __next__(self) -> bytes:
        while True:
            text = next(self._texts)
            self._unread = None
            if text and self._wanted(text):
                return text

    def state(self) -> dict:
        return self._unread or self._dataset.state_dict()

    def restore(self, state: dict) -> None:
        self._unread = state
        self._dataset.load_state_dict(state)
        self._texts = self._read(iter(self._dataset))

    def rewind(self) -> None:
        """Starts another pass."""
        self.restore(self._start)
