"""Prompts with a needle: a key and a value somewhere in held-out text, and the key again at the end.

A prompt is E, filler, key, value, filler, key; what comes next is the value. All of it is token ids, nothing
is decoded or encoded again, and every prompt has exactly the tokens asked for: the answer stands behind them.

For any tokenizer: the key is KEY_TOKENS different tokens, drawn uniformly from those that the held-out text
has; the value is one token, so that one forward pass ranks all candidates. These are drawn uniformly from the
different tokens of the filler that the shortest prompt has already, and the value is any of them: all have
been seen in the context, and only what follows the key tells which is meant.
"""

import hashlib

import numpy as np

from seqmodels.data.random_bits import below, check_seed, distinct, row_words

KEY_TOKENS = 4
CANDIDATES = 16
SHORTEST_FILLER = 2 * CANDIDATES
OVERHEAD = 2 * KEY_TOKENS + 2
"""Tokens of a prompt that are no filler."""
_KEY = 0x4E45


class Prompts:
    """`count` prompts, each of which can be laid out at any length and depth.

    Attributes:
        key: int32 [count, KEY_TOKENS].
        candidates: int32 [count, CANDIDATES], different from each other and from the tokens of the key.
        value: int32 [count], one of the candidates.
    """

    def __init__(self, filler, key, candidates, value, end_id: int):
        self._filler, self._end_id = filler, end_id
        self.key, self.candidates, self.value = key, candidates, value

    def __len__(self) -> int:
        return len(self.value)

    def rows(self, length: int, depth: float) -> tuple[np.ndarray, int]:
        """(tokens int32 [count, length], distance from the value to the prompt's last token).

        depth: the share of the filler that stands before the key.
        """
        filler = self._filler[:, : length - OVERHEAD]
        before = int(np.rint(depth * filler.shape[1]))
        end = np.full((len(self), 1), self._end_id, np.int32)
        parts = (end, filler[:, :before], self.key, self.value[:, None], filler[:, before:], self.key)
        return np.concatenate(parts, axis=1), filler.shape[1] - before + KEY_TOKENS

    def hash(self) -> str:
        """Of all that rows are made of, to be stored beside what was measured on them."""
        whole = hashlib.blake2b(digest_size=16)
        for array in (self._filler, self.key, self.candidates, self.value):
            whole.update(np.ascontiguousarray(array, "<i4").tobytes())
        return whole.hexdigest()


def fitting(lengths: list[int], longest: int, tokens: int) -> list[int]:
    """The lengths for which a text of `tokens` tokens has filler, and that are at most `longest`."""
    most = min(longest, tokens + OVERHEAD)
    return [length for length in lengths if SHORTEST_FILLER + OVERHEAD <= length <= most]


def draw(tokens: np.ndarray, end_id: int, lengths: list[int], count: int, seed: int) -> Prompts | None:
    """The first `count` prompts of a seed from the tokens of held-out text; the same on every machine.

    Passed over are those whose filler has too few different tokens, or has the key, which is thus unique in
    its prompt. None where that leaves fewer than `count` of twice as many.
    """
    check_seed(seed)
    known = np.flatnonzero(np.bincount(np.asarray(tokens, np.int64)))
    if len(known) < CANDIDATES + KEY_TOKENS:
        return None
    shortest, filler = min(lengths) - OVERHEAD, max(lengths) - OVERHEAD
    words = row_words((seed, _KEY), 0, 2 * count, 2 + 2 * CANDIDATES + 2 * KEY_TOKENS)
    start = below(words[:, 0], len(tokens) - filler + 1)
    which = below(words[:, 1], CANDIDATES)
    made = []
    for row in range(2 * count):
        text = np.asarray(tokens[start[row] : start[row] + filler], np.int32)
        of_candidates, of_key = np.split(words[row, 2:], [2 * CANDIDATES])
        seen = np.unique(text[:shortest])
        if len(seen) < CANDIDATES:
            continue
        candidates = seen[_choose(of_candidates, len(seen))]
        others = np.setdiff1d(known, candidates)
        key = others[_choose(of_key, len(others))]
        if not _has(text, key):
            made.append((text, key, candidates, candidates[which[row]]))
        if len(made) == count:
            return Prompts(*(np.array(part, np.int32) for part in zip(*made, strict=True)), end_id)
    return None


def _choose(words: np.ndarray, bound: int) -> np.ndarray:
    """Half as many different numbers below the bound as there are words."""
    choice, order = np.split(words[None], 2, axis=1)
    return distinct(choice, order, bound)[0]


def _has(text: np.ndarray, key: np.ndarray) -> bool:
    """Whether the key stands in a text; since its tokens differ, it stands across no border with another."""
    windows = np.lib.stride_tricks.sliding_window_view(text, len(key))
    return bool((windows == key).all(axis=1).any())
