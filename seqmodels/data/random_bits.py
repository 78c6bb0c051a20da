"""Random numbers from a key and a position alone: the same on every machine and numpy version."""

import numpy as np

from seqmodels.errors import InputError


def check_seed(seed: int) -> None:
    """Raises InputError unless the seed is a whole number from 0 to 2**63 - 1."""
    if not 0 <= seed < 2**63:
        raise InputError(f"seed = {seed} should be a whole number from 0 to 2**63 - 1.")


def random_words(key: tuple[int, int], blocks: int, first_block: int = 0) -> np.ndarray:
    """Four uint64 words a block `[4 * blocks]`, from the counter-based generator Philox 4x64-10.

    Raw words: numpy promises to keep them, but not the ways in which its `Generator` uses them.
    (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.)
    """
    counter = np.array([first_block, 0, 0, 0], np.uint64)
    return np.random.Philox(key=np.array(key, np.uint64), counter=counter).random_raw(4 * blocks)


def row_words(key: tuple[int, int], first: int, count: int, needed: int) -> np.ndarray:
    """uint32 words `[count, needed]` of the rows from `first` on; a row's depend on its own index alone."""
    blocks = -(-needed // 8)
    words = random_words(key, count * blocks, first * blocks).view(np.uint32)
    return words.reshape(count, 8 * blocks)[:, :needed]


def permutation(key: tuple[int, int], count: int, stream: int = 0) -> np.ndarray:
    """A random order of `range(count)`; the streams of a key are independent."""
    words = random_words(key, -(-count // 4), first_block=stream << 60)
    return np.argsort(words[:count], kind="stable")


def below(words: np.ndarray, bound: np.ndarray | int) -> np.ndarray:
    """Uniform int64 in `[0, bound)` from uint32 words, uneven by less than bound / 2**32."""
    return ((words.astype(np.uint64) * np.asarray(bound, np.uint64)) >> np.uint64(32)).astype(np.int64)


def distinct(choice: np.ndarray, order: np.ndarray, bound: int) -> np.ndarray:
    """K different numbers below `bound`, in random order, from each row of uint32 words `[B, K]` twice.

    Floyd's algorithm: the work depends on K, not on the bound. (Bentley and Floyd, CACM 30, 1987.)
    """
    count = choice.shape[1]
    chosen = np.empty(choice.shape, np.int64)
    for i in range(count):
        newest = bound - count + i
        number = below(choice[:, i], newest + 1)
        taken = (chosen[:, :i] == number[:, None]).any(axis=1)
        chosen[:, i] = np.where(taken, newest, number)
    return np.take_along_axis(chosen, np.argsort(order, axis=1, kind="stable"), axis=1)
