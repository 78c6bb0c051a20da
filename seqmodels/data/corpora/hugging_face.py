"""A corpus of the Hugging Face `datasets` library."""

import hashlib
import os
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path

import gin

from seqmodels.data.corpora.corpus import Corpus, Split, content_key, validation_limit
from seqmodels.errors import InputError

_SAMPLE = 100
_FORMATS = ("json", "parquet", "arrow")
_INEXACT = {"text": "ends lines at a lone \\r too", "csv": "takes texts such as NA for none"}


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
        if path in _INEXACT:
            raise InputError(
                f"HuggingFace.path = {path!r} {_INEXACT[path]}, so that text is lost: name plain text with "
                "TextFiles.train, and write tables as Parquet."
            )
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
        """Of every document; of the settings and the first documents when streaming."""
        made_of: list = ["HuggingFace", self._validation_split is None, self._fraction, self.streaming]
        if self.streaming:
            made_of += [self._validation_documents, self.shuffle_window]
        whole = hashlib.blake2b(repr(made_of).encode(), digest_size=16)
        for dataset in (self._train, *([] if self._validation is None else [self._validation])):
            for text in islice(self._texts(dataset), _SAMPLE if self.streaming else None):
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
        return HuggingFaceStream(self._load(self._split), self._text_field, self._is_training)

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
        return self._load(self._split)

    @cached_property
    def _validation(self):
        return None if self._validation_split is None else self._load(self._validation_split)

    def _texts(self, dataset) -> Iterator[bytes]:
        return _read(iter(dataset), self._text_field)

    def _load(self, split: str):
        """A split with the text column alone, map-style or streaming."""
        import datasets

        folder = Path(os.path.expanduser(self._path))
        try:
            if (folder / "state.json").is_file() or (folder / "dataset_dict.json").is_file():
                loaded = datasets.load_from_disk(str(folder))
                splits = loaded if isinstance(loaded, datasets.DatasetDict) else {"train": loaded}
                if self.streaming:
                    splits = {name: dataset.to_iterable_dataset() for name, dataset in splits.items()}
            elif self._path not in _FORMATS and _looks_local(self._path) and not folder.exists():
                raise InputError(f"HuggingFace.path = {self._path!r}: there is no such folder.")
            else:
                splits = datasets.load_dataset(
                    self._path, self._name, data_files=self._data_files, streaming=self.streaming
                )
        except InputError:
            raise
        except Exception as error:  # the library raises a dozen types, down to those of its network
            raise InputError(
                f"HuggingFace cannot load path = {self._path!r}, name = {self._name!r}, data_files = "
                f"{self._data_files}: {_reason(error)} Without a network, name a folder written by "
                "save_to_disk, or 'json', 'parquet' or 'arrow' with HuggingFace.data_files."
            ) from None
        if split not in splits:
            raise InputError(f"{self._path} has no split {split!r}; it has {', '.join(map(repr, splits))}.")
        columns = splits[split].column_names
        if columns is not None and self._text_field not in columns:
            raise InputError(
                f"{self._path} has no column {self._text_field!r}: HuggingFace.text_field should be one of "
                f"{columns}."
            )
        return splits[split].select_columns([self._text_field])


class HuggingFaceStream:
    """Documents of one pass over a streamed split; `state` is exact at any document."""

    def __init__(self, dataset, text_field: str, wanted):
        self._dataset, self._text_field, self._wanted = dataset, text_field, wanted
        self._start = dataset.state_dict()
        # The position until a document is read: only then the library takes over the one it was given.
        self._unread: dict | None = self._start
        self._texts = _read(iter(dataset), text_field)

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
        self._texts = _read(iter(self._dataset), self._text_field)

    def rewind(self) -> None:
        """Starts another pass."""
        self.restore(self._start)


def _read(records: Iterator[dict], text_field: str) -> Iterator[bytes]:
    """The texts of records; empty ones where there is none."""
    row = 0
    try:
        for row, record in enumerate(records):
            text = record.get(text_field)
            if not isinstance(text, str | None):
                kind = type(text).__name__
                raise InputError(f"record {row}: {text_field!r} is {kind}, and should be text.")
            yield b"" if text is None else text.encode()
    except InputError:
        raise
    except Exception as error:  # as many types as in loading: files are opened and fetched here too
        raise InputError(f"the data set cannot be read past record {row}: {_reason(error)}") from None


def _looks_local(path: str) -> bool:
    return path.startswith((".", "/", "~")) or path.count("/") > 1


def _reason(error: BaseException) -> str:
    """The first line of what began it: the library's own error may say no more than that there was one."""
    while error.__cause__ is not None:
        error = error.__cause__
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return line if line.endswith(".") else line + "."
