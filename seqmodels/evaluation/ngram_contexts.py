"""Contexts of held-out text for the n-gram probe, and the same without a pair's earlier occurrences."""

import numpy as np

from seqmodels.data.random_bits import below, permutation, random_words
from seqmodels.evaluation.scorer import finite, in_flight, nll_of_logits, shared_width
from seqmodels.evaluation.statistics import Estimate, ratio
from seqmodels.evaluation.windows import cut, documents, fill

_KEY = 0x4E47
_SAMPLE, _STAND_IN = 1 << 32, 2 << 32  # a bin's sample of hits has the number of the bin
_NEIGHBOURS = 17  # in rank by frequency, the token itself among them

Places = tuple[np.ndarray, np.ndarray]
"""(context, position) of some targets, [n] each."""


class Contexts:
    """A fixed sample of contexts of up to `longest` tokens, none of which leaves its document.

    Attributes:
        tokens, targets: int32 [contexts, longest].
        codes: int64 [contexts, longest], of the pair (input, target); -1 where one of them is no text, or
            where they are equal.
        document: [contexts], counted from 0 to `documents` - 1.
    """

    def __init__(self, store, tokenizer, longest: int, count: int):
        source = documents(store, tokenizer)
        windows = cut(source.inputs, longest, longest)
        drawn = permutation((_KEY, _SAMPLE), len(windows.document))[:count]
        rows = fill(source, windows, [[int(w)] for w in drawn], len(drawn), longest)
        self.tokens, self._segment_ids, self.targets = rows[:3]
        kept, self.document = np.unique(windows.document[drawn], return_inverse=True)
        self.documents = len(kept)
        text = (rows.unit >= 0) & (rows.unit % 2 == 0) & (self.tokens != tokenizer.end_id)
        codes = self.tokens.astype(np.int64) * tokenizer.vocab_size + self.targets
        self.codes = np.where(text & (self.tokens != self.targets), codes, -1)

    def nll(self, scorer, tokens_per_batch: int) -> np.ndarray:
        """Nats, [contexts, longest]; of no meaning at padding."""
        count, longest = self.tokens.shape
        size = max(1, min(count, tokens_per_batch // longest))
        missing = ((0, -count % size), (0, 0))
        rows = [np.pad(array, missing) for array in (self.tokens, self._segment_ids, self.targets)]

        def scored():
            for first in range(0, count, size):
                yield scorer.nll(*(array[first : first + size] for array in rows)), None

        parts = [values for values, _ in in_flight(scored(), count, size)]
        nll = np.concatenate(parts)[:count].astype(np.float64)
        finite(nll[self._segment_ids != 0], "losses of n-gram hits")
        return nll

    def mean(self, values: np.ndarray, places: Places) -> Estimate:
        """Of values at places, [n] both, with its interval over documents."""
        document = self.document[places[0]]
        sums = np.bincount(document, values, minlength=self.documents)
        return ratio(sums, np.bincount(document, minlength=self.documents))

    def without(self, places: Places, stand_ins: "StandIns") -> np.ndarray:
        """Inputs [n, longest]: the context of each place, with the target of every earlier occurrence of its
        pair replaced.
        """
        context, position = places
        before = np.arange(self.tokens.shape[1]) < position[:, None]
        row, at = np.nonzero((self.codes[context] == self.codes[places][:, None]) & before)
        changed = self.tokens[context]
        changed[row, at + 1] = stand_ins.draw(self.targets[context[row], at], self.tokens[context[row], at])
        return changed


class StandIns:
    """Tokens that training had about as often as another one: its neighbours in rank."""

    def __init__(self, counts: np.ndarray):
        """counts: of each text token, [at least 3]."""
        self._by_count = np.argsort(-counts, kind="stable")
        self._rank = np.argsort(self._by_count)

    def draw(self, tokens: np.ndarray, before: np.ndarray) -> np.ndarray:
        """A token for each of `tokens` [n], other than itself and than the one before it [n]."""
        width = min(_NEIGHBOURS, len(self._by_count))
        lowest = np.clip(self._rank[tokens] - width // 2, 0, len(self._by_count) - width)
        words = random_words((_KEY, _STAND_IN), -(-len(tokens) // 8)).view(np.uint32)[: len(tokens)]
        step = below(words, width)
        for _ in range(2):
            drawn = self._by_count[lowest + step]
            step = (step + ((drawn == tokens) | (drawn == before))) % width
        return self._by_count[lowest + step]


def some(places: Places, number: int, most: int) -> Places:
    """At most `most` of the places, drawn from a fixed seed; number: of the draw."""
    kept = np.sort(permutation((_KEY, number), len(places[0]))[:most])
    return places[0][kept], places[1][kept]


def nll_at(
    scorer,
    inputs: np.ndarray,
    targets: np.ndarray,
    position: np.ndarray,
    *,
    training_length: int,
    longest: int,
    batch_size: int,
) -> np.ndarray:
    """Nats of targets [n], each at one position [n] of a row of inputs [n, longest]."""
    rising = np.argsort(position, kind="stable")

    def scored():
        for first in range(0, len(rising), batch_size):
            part = rising[first : first + batch_size]
            width = shared_width(int(position[part].max()) + 1, training_length, longest)
            # The last batch is filled up with repetitions: one shape, one compilation.
            rows = np.resize(part, batch_size)
            at = position[rows, None].astype(np.int32)
            seen = (np.arange(width) <= at).astype(np.int32)
            yield scorer.logits(inputs[rows, :width] * seen, seen, at), part

    nll = np.empty(len(rising))
    for logits, part in in_flight(scored(), len(rising), batch_size):
        nll[part] = nll_of_logits(logits[: len(part), 0], targets[part])
    return finite(nll, "losses of n-gram hits")
