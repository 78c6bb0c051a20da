"""Finite groups as tables of products, computed from permutations."""

import functools
import itertools
import re
from typing import NamedTuple

import numpy as np

from seqmodels.errors import InputError

_SIZES = {"Z": (2, 1000), "S": (2, 5), "A": (3, 5)}  # one element alone has no bit to follow


class Group(NamedTuple):
    """elements: permutations of 0, 1, ..., the identity first. product: int64 `[order, order]`."""

    elements: tuple[tuple[int, ...], ...]
    product: np.ndarray


@functools.lru_cache(maxsize=16)
def group_of(name: str) -> Group:
    """Z<n>, the rotations of n things; S<n>, all their permutations; A<n>, the even ones.

    `product[a, b]` is a after b: it takes x to a(b(x)). Elements are in lexicographic order.

    Raises:
        InputError: another name, a group of one element, or one too large for a table.
    """
    found = re.fullmatch(r"([ZSA])([0-9]{1,4})", name)
    kind, n = (found[1], int(found[2])) if found else ("Z", 0)
    least, most = _SIZES[kind]
    if not least <= n <= most:
        raise InputError(f"there is no group {name!r}: groups are Z2 to Z1000, S2 to S5 and A3 to A5.")
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
