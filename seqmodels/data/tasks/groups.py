"""Finite groups as tables of products, computed from permutations."""

import functools
import itertools
import re
from typing import NamedTuple

import numpy as np

from seqmodels.errors import InputError

_LARGEST = {"Z": 1000, "S": 5, "A": 5}


class Group(NamedTuple):
    """elements: permutations of 0, 1, ..., the identity first. product: int64 `[order, order]`."""

    elements: tuple[tuple[int, ...], ...]
    product: np.ndarray


@functools.lru_cache(maxsize=16)
def group_of(name: str) -> Group:
    """Z<n>, the rotations of n things; S<n>, all their permutations; A<n>, the even ones.

    `product[a, b]` is a after b: it takes x to a(b(x)). Elements are in lexicographic order.

    Raises:
        InputError: another name, or a group too large for a table.
    """
    found = re.fullmatch(r"([ZSA])([0-9]{1,4})", name)
    if not found or not 1 <= int(found[2]) <= _LARGEST[found[1]]:
        raise InputError(f"there is no group {name!r}: groups are Z1 to Z1000, S1 to S5 and A1 to A5.")
    kind, n = found[1], int(found[2])
    if kind == "Z":
        numbers = np.arange(n)
        rotations = (numbers[:, None] + numbers) % n
        return Group(tuple(map(tuple, rotations.tolist())), rotations)
    elements = tuple(p for p in itertools.permutations(range(n)) if kind == "S" or _is_even(p))
    number = {element: index for index, element in enumerate(elements)}
    product = [[number[tuple(a[x] for x in b)] for b in elements] for a in elements]
    return Group(elements, np.array(product, np.int64))


def _is_even(permutation: tuple[int, ...]) -> bool:
    return sum(a > b for a, b in itertools.combinations(permutation, 2)) % 2 == 0
