"""The arrays of a checkpoint, read back: they fit what is asked for and are those that were saved.

A checkpoint is parted into items (params, opt_state, loop), each of which can be read alone. Beside them
stand the position in the data and the crc32 of each item's arrays as they were in memory.
"""

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from orbax.checkpoint import v1 as ocp

from seqmodels.errors import InputError
from seqmodels.training import orbax_noise


def checksum(tree: Any) -> int:
    """crc32 over names, shapes, dtypes and bytes of all leaves."""
    crc = 0
    for path, leaf in jax.tree.leaves_with_path(tree):
        array = np.ascontiguousarray(jax.device_get(leaf))
        crc = zlib.crc32(f"{jax.tree_util.keystr(path)} {array.dtype} {array.shape}".encode(), crc)
        crc = zlib.crc32(array.reshape(-1).view(np.uint8), crc)
    return crc


def load(directory: Path, abstract: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Items of a checkpoint, and what is stored beside them.

    Args:
        directory: of the checkpoint.
        abstract: by item a tree of shapes, dtypes and shardings.

    Raises:
        InputError: the checkpoint lacks an item, holds other arrays than asked for, or is damaged.
    """
    saved = _read(directory, lambda: ocp.checkpointables_metadata(directory))
    for item, wanted in abstract.items():
        _check_fit(f"{directory}/{item}", saved.metadata.get(item, {}), wanted)
    items = _read(directory, lambda: ocp.load_checkpointables(directory, abstract))
    about = saved.custom_metadata or {}
    for item in abstract:
        if checksum(items[item]) != about.get("crc32", {}).get(item):
            raise InputError(f"{directory} is damaged: the content of {item} differs from its checksum.")
    return items, about


def _check_fit(where: str, saved: Any, wanted: Any) -> None:
    """Raises InputError where the arrays of an item are not those that the config makes."""
    theirs, ours = _forms(saved), _forms(wanted)
    for name in sorted({*theirs, *ours}):
        if theirs.get(name) != ours.get(name):
            raise InputError(
                f"{where} does not fit the config: {name} is {theirs.get(name, 'absent')} in the "
                f"checkpoint and should be {ours.get(name, 'absent')}."
            )


def _forms(tree: Any) -> dict[str, str]:
    """Shape and dtype of each array by its name; what is saved names fields as it names keys."""
    leaves = jax.tree.leaves_with_path(tree, is_leaf=lambda leaf: hasattr(leaf, "shape"))
    return {
        "/".join(jax.tree_util.keystr((key,), simple=True) for key in path): f"{leaf.dtype} {leaf.shape}"
        for path, leaf in leaves
        if hasattr(leaf, "shape")
    }


def _read(directory: Path, read: Callable[[], Any]) -> Any:
    """What `read` returns; whatever it raises, for cut files say, becomes an InputError of one line."""
    with orbax_noise.reading():
        try:
            return read()
        except Exception as error:
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    raise InputError(f"{directory} is damaged: {reason}.")
