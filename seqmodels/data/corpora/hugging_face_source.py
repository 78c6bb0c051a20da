"""What the `datasets` library loads: the splits of a data set, and the local files behind them."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from seqmodels.data.corpora.local_files import hash_files
from seqmodels.errors import InputError

FORMATS = ("json", "parquet", "arrow")
"""What names local files in place of a data set."""

_INEXACT = {"text": "ends lines at a lone \\r too", "csv": "takes texts such as NA for none"}


class Source(NamedTuple):
    """splits: data sets of the library by name, map-style or streaming. files: those of each split; None
    where they are not all on this machine.
    """

    splits: Mapping[str, Any]
    files: Mapping[str, list[Path]] | None


def check_exact(reader: str, path: str) -> None:
    """Raises InputError for a reader of the library that loses text; `path` is what chose it."""
    if reader in _INEXACT:
        raise InputError(
            f"HuggingFace.path = {path!r} is read by {reader!r}, which {_INEXACT[reader]}, so that text is "
            "lost: name plain text with TextFiles.train, and write tables as Parquet."
        )


def load(path: str, name: str | None, data_files: Sequence[str] | None, streaming: bool) -> Source:
    """The data set of these settings of HuggingFace.

    Raises:
        InputError: there is no such data set, its files are damaged, or a setting does not belong to it.
    """
    folder = Path(os.path.expanduser(path))
    try:
        if (folder / "state.json").is_file() or (folder / "dataset_dict.json").is_file():
            return _saved(folder, name, data_files, streaming)
        if path not in FORMATS and _looks_local(path) and not folder.exists():
            raise InputError(f"HuggingFace.path = {path!r}: there is no such folder.")
        return _built(path, name, data_files, streaming)
    except InputError:
        raise
    except Exception as error:  # the library raises a dozen types, down to those of its network
        raise InputError(
            f"HuggingFace cannot load {described(path, name, data_files)}: {reason(error)} Without a "
            "network, name a folder written by save_to_disk, or 'json', 'parquet' or 'arrow' with "
            "HuggingFace.data_files."
        ) from None


def described(path: str, name: str | None, data_files: Sequence[str] | None) -> str:
    """The settings that choose a data set, for a sentence."""
    return f"path = {path!r}, name = {name!r}, data_files = {data_files}"


def reason(error: BaseException) -> str:
    """The first line of what began it: the library's own error may say no more than that there was one."""
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, StopIteration):
        return "its files hold no record."
    line = (str(error).splitlines() or [type(error).__name__])[0]
    return line if line.endswith(".") else line + "."


def _saved(folder: Path, name: str | None, data_files: Sequence[str] | None, streaming: bool) -> Source:
    """What `save_to_disk` wrote."""
    import datasets

    for setting, value in (("name", name), ("data_files", data_files)):
        if value is not None:
            raise InputError(
                f"HuggingFace.path = {str(folder)!r} was written by save_to_disk, which takes no "
                f"HuggingFace.{setting} = {value!r}: leave it out."
            )
    loaded = datasets.load_from_disk(str(folder))
    splits = loaded if isinstance(loaded, datasets.DatasetDict) else {"train": loaded}
    files = {split: [Path(file["filename"]) for file in data.cache_files] for split, data in splits.items()}
    if streaming:
        splits = {split: data.to_iterable_dataset() for split, data in splits.items()}
    return Source(splits, files)


def _built(path: str, name: str | None, data_files: Sequence[str] | None, streaming: bool) -> Source:
    """What the library reads with the reader that it chooses."""
    import datasets

    builder = datasets.load_dataset_builder(path, name, data_files=data_files)
    check_exact(builder.name, path)
    named = builder.config.data_files or {}
    files = {str(split): [Path(file) for file in found] for split, found in named.items()}
    every = [file for found in files.values() for file in found]
    if data_files is not None and not every:
        raise InputError(f"HuggingFace.data_files = {data_files} matches no file.")
    local = bool(every) and all(map(os.path.isfile, every))
    cache = None
    if local and not streaming:
        # The library knows files again by name and time, and would give old text for new.
        cache = str(Path(datasets.config.HF_DATASETS_CACHE) / hash_files(every))
    splits = datasets.load_dataset(path, name, data_files=data_files, streaming=streaming, cache_dir=cache)
    return Source(splits, files if local else None)


def _looks_local(path: str) -> bool:
    return path.startswith((".", "/", "~")) or path.count("/") > 1
