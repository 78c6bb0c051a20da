"""Interventions on rows: what a row says is changed, and the answer of whatever reads it must change with it.

They act on rows `[K pairs] [F fillers] [query]` of a recall task. Whatever is drawn depends on the row's
index alone, so that batches and machines agree.
"""

from typing import NamedTuple

import numpy as np

from seqmodels.data.random_bits import below, row_words
from seqmodels.evaluation.intervention_effects import Effect, answers, effect

# Apart from the keys of seeds and splits that rows themselves are drawn with.
_STREAM = 1 << 32


class Rows(NamedTuple):
    """Rows of one query, of one load and one delay.

    tokens: int32 [rows, 2 K + F + 1]. pairs: K. target: [rows], from 0, the pair that is asked for.
    key_ids, value_ids, filler_ids: the alphabets.
    """

    tokens: np.ndarray
    pairs: int
    target: np.ndarray
    key_ids: range
    value_ids: range
    filler_ids: range

    @property
    def fillers(self) -> int:
        """F"""
        return self.tokens.shape[1] - 1 - 2 * self.pairs

    @property
    def keys(self) -> np.ndarray:
        """[rows, K]"""
        return self.tokens[:, 0 : 2 * self.pairs : 2]

    @property
    def values(self) -> np.ndarray:
        """[rows, K]"""
        return self.tokens[:, 1 : 2 * self.pairs : 2]

    @property
    def answer(self) -> np.ndarray:
        """[rows]: the value of the pair that is asked for."""
        return _at(self.values, self.target)

    @property
    def distance(self) -> np.ndarray:
        """[rows]: position of the query less position of the target's value."""
        return self.tokens.shape[1] - 1 - (2 * self.target + 1)


class Changed(NamedTuple):
    """Rows after an intervention.

    tokens: as before it. answer: [rows], what a perfect memory then says; -1 where it can only guess.
    counted: [rows] bool, where the intervention had something to act on.
    """

    tokens: np.ndarray
    answer: np.ndarray
    counted: np.ndarray


def by_row(scorer, rows: Rows, batch_size: int) -> list[Effect]:
    """The effects of value swap, pair deletion, key swap and a context cut in front of or behind the pair."""

    def said(tokens, segment_ids=None):
        return answers(scorer, tokens, _ones(tokens) if segment_ids is None else segment_ids, batch_size)

    guess, whole = 1 / len(rows.value_ids), said(rows.tokens)
    swap, deletion, exchange = value_swap(rows), pair_deletion(rows), key_swap(rows)
    after_swap, after_deletion, after_exchange = (
        said(changed.tokens) for changed in (swap, deletion, exchange)
    )
    first, gone = (said(*truncated(rows, rows.distance + more)) for more in (1, -1))
    return [
        effect("value_swap", "value swap: new value", whole, after_swap, swap.answer, perfect=(0, 1)),
        effect("value_swap_old", "value swap: old value", whole, after_swap, rows.answer, perfect=(1, 0)),
        effect("deletion", "pair deletion", whole, after_deletion, rows.answer, perfect=(1, guess)),
        effect(
            "key_swap",
            "key swap: other value",
            whole,
            after_exchange,
            exchange.answer,
            perfect=(0, 1),
            counted=exchange.counted,
        ),
        effect("cut", "context cut at the pair", first, gone, rows.answer, perfect=(1, guess)),
    ]


def by_context(scorer, rows: Rows, batch_size: int) -> tuple[list[int], list[Effect]]:
    """(tokens kept before the query, in powers of two up to whole rows; the effect of each cut)."""
    before = rows.tokens.shape[1] - 1
    kept = [1 << n for n in range((before - 1).bit_length() + 1)]
    whole = answers(scorer, rows.tokens, _ones(rows.tokens), batch_size)
    effects = []
    for count in kept:
        left = float((rows.distance + 1 <= count).mean())
        perfect = (1, left + (1 - left) / len(rows.value_ids))
        said = answers(scorer, *truncated(rows, count), batch_size)
        effects.append(
            effect(f"last_{count}_tokens", f"last {count} tokens", whole, said, rows.answer, perfect=perfect)
        )
    return kept, effects


def value_swap(rows: Rows) -> Changed:
    """The target's value is replaced by one that the row does not hold."""
    fresh = _unused(_words(rows, 0), rows.value_ids, rows.values)
    tokens = rows.tokens.copy()
    _put(tokens, 2 * rows.target + 1, fresh)
    return Changed(tokens, fresh, _all(rows))


def pair_deletion(rows: Rows) -> Changed:
    """The target is replaced by a pair of a key and a value that the row does not hold: its length stays."""
    tokens = rows.tokens.copy()
    _put(tokens, 2 * rows.target, _unused(_words(rows, 1), rows.key_ids, rows.keys))
    _put(tokens, 2 * rows.target + 1, _unused(_words(rows, 2), rows.value_ids, rows.values))
    return Changed(tokens, np.full_like(rows.target, -1), _all(rows))


def key_swap(rows: Rows) -> Changed:
    """The keys of the target and of another pair, of another value, change places."""
    others = rows.values != rows.answer[:, None]
    counted = others.any(axis=1)
    other = _chosen(_words(rows, 3), np.where(counted[:, None], others, True))
    tokens = rows.tokens.copy()
    _put(tokens, 2 * rows.target, _at(rows.keys, other))
    _put(tokens, 2 * other, _at(rows.keys, rows.target))
    return Changed(tokens, _at(rows.values, other), counted)


def other_values(rows: Rows) -> Changed:
    """Rows of the same keys and the same query, with another value in each pair, and other fillers."""
    words = row_words((0, _STREAM + 4), 0, len(rows.tokens), rows.pairs + rows.fillers)
    further = 1 + below(words[:, : rows.pairs], len(rows.value_ids) - 1)
    values = rows.value_ids.start + (rows.values - rows.value_ids.start + further) % len(rows.value_ids)
    tokens = rows.tokens.copy()
    tokens[:, 1 : 2 * rows.pairs : 2] = values
    if rows.fillers:
        fillers = below(words[:, rows.pairs :], len(rows.filler_ids))
        tokens[:, 2 * rows.pairs : -1] = rows.filler_ids.start + fillers
    return Changed(tokens, _at(values, rows.target), _all(rows))


def truncated(rows: Rows, kept: np.ndarray | int) -> tuple[np.ndarray, np.ndarray]:
    """(tokens, segment_ids) of which the last `kept` (of all rows, or [rows]) before the query are left.

    What is cut off becomes padding on the left, which shifts nothing, so that all lengths share a shape.
    """
    length = rows.tokens.shape[1]
    left = np.arange(length) >= length - 1 - np.broadcast_to(kept, len(rows.tokens))[:, None]
    return np.where(left, rows.tokens, 0).astype(np.int32), left.astype(np.int32)


def _ones(tokens: np.ndarray) -> np.ndarray:
    return np.ones(tokens.shape, np.int32)


def _words(rows: Rows, stream: int) -> np.ndarray:
    """uint32 [rows], of its own for each intervention."""
    return row_words((0, _STREAM + stream), 0, len(rows.tokens), 1)[:, 0]


def _all(rows: Rows) -> np.ndarray:
    return np.ones(len(rows.tokens), bool)


def _unused(words: np.ndarray, alphabet: range, held: np.ndarray) -> np.ndarray:
    """[rows]: an id of the alphabet that is not among those `held` [rows, K], fewer than the alphabet."""
    free = np.ones((len(held), len(alphabet)), bool)
    free[np.arange(len(held))[:, None], held - alphabet.start] = False
    return alphabet.start + _chosen(words, free)


def _chosen(words: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """[rows]: the index of one of the True entries of each row of `allowed`, each as likely."""
    rank = below(words, allowed.sum(axis=1))
    return np.argmax(np.cumsum(allowed, axis=1) > rank[:, None], axis=1)


def _at(array: np.ndarray, index: np.ndarray) -> np.ndarray:
    return np.take_along_axis(array, index[:, None], axis=1)[:, 0]


def _put(array: np.ndarray, index: np.ndarray, values: np.ndarray) -> None:
    np.put_along_axis(array, index[:, None], values[:, None].astype(array.dtype), axis=1)
