"""Random numbers that are a function of a key and a position alone: the same on every machine and numpy version."""

import numpy as np

from seqmodels.errors import InputError


def check_seed(seed: int, name: str = "seed") -> None:
    """Raises InputError unless the seed is a whole number from 0 to 2**63 - 1."""
    if not 0 <= seed < 2**63:
        raise InputError(f"{name} = {seed} should be a whole number from 0 to 2**63 - 1.")


def random_words(key: tuple[int, int], blocks: int, first_block: int = 0) -> np.ndarray:
    """Four uint64 words a block `[blocks * 4]`, from the counter-based generator Philox 4x64-10.

    Raw words, because numpy promises to keep them, and does not promise to keep `Generator`'s ways of using them.
    (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.)
    """
    generator = np.random.Philox(key=np.array(key, np.uint64), counter=np.array([first_block, 0, 0, 0], np.uint64))
    return generator.random_raw(blocks * 4)


def permutation(key: tuple[int, int], count: int, stream: int = 0) -> np.ndarray:
    """A random order of `range(count)`; streams of one key are independent."""
    blocks = -(-count // 4)
    return np.argsort(random_words(key, blocks, first_block=stream << 60)[:count], kind="stable")


def below(words: np.ndarray, bound: np.ndarray | int) -> np.ndarray:
    """Uniform int64 in `[0, bound)` from uint32 words; bounds up to 2**31, uneven by less than bound / 2**32."""
    return ((words.astype(np.uint64) * np.asarray(bound, np.uint64)) >> np.uint64(32)).astype(np.int64)
