"""N-gram hits on planted pairs: found at the right distances, gained from by a copier and by nothing else."""

import itertools

import numpy as np
import pytest

from seqmodels.evaluation import bigrams, ngram_contexts, ngram_hits
from tests.evaluation.oracles import ContextFree, Ids, Store, uniform

# Filler ids 0 to 199, planted pairs from 200 on; the end of text is 400.
END = 400
DISTANCES = (3, 6, 12, 24, 48)
COMMON = (390, 391)


class PairCopier(ContextFree):
    """Predicts, with near certainty, the token that last followed this one, at most `window` tokens ago."""

    def __init__(self, window):
        super().__init__(np.full(END + 1, 1 / (END + 1)))
        self._window = window

    def logits(self, tokens, segment_ids, positions):
        out = np.zeros((*positions.shape, self.vocab_size), np.float32)
        for row, ids in enumerate(tokens):
            for n, position in enumerate(positions[row]):
                before = ids[:position] == ids[position]
                at = np.flatnonzero(before)
                if len(at) and position - at[-1] <= self._window:
                    out[row, n, ids[at[-1] + 1]] = 20.0
        return out

    def nll(self, tokens, segment_ids, targets):
        every = np.tile(np.arange(tokens.shape[1]), (len(tokens), 1))
        return ngram_contexts.nll_of_logits(self.logits(tokens, segment_ids, every), targets)


def document(number):
    """No token twice, but for a rare pair twice at each distance, a common pair twice, and a run."""
    text = np.random.default_rng(number).permutation(200)[:140]
    place = 2 + number % 5
    for k, (offset, distance) in enumerate(zip((0, 5, 7, 9, 13), DISTANCES, strict=True)):
        for at in (place + offset, place + offset + distance):
            text[at : at + 2] = 200 + 2 * k, 201 + 2 * k
    text[80:82] = text[100:102] = COMMON
    text[104:108] = 395
    return text


HELD_OUT = Store([document(n) for n in range(24)])
TRAINING = Store([np.random.default_rng(99).integers(0, 200, 4000), np.tile(COMMON, 9)])


def measure(scorer, batch_size=8, **settings):
    settings = {"training_length": 32, "longest": 128, **settings}
    return ngram_hits.measure(scorer, HELD_OUT, Ids(END), TRAINING, batch_size=batch_size, **settings)


def test_copier_gains_up_to_its_window_and_not_beyond():
    """A distance off by one, or an occurrence left in the counterfactual, would move the flip."""
    result = measure(PairCopier(window=12))
    np.testing.assert_array_equal(result.first, [2, 4, 8, 16, 32])
    np.testing.assert_array_equal(result.last, [3, 7, 15, 31, 63])
    np.testing.assert_array_equal(result.hits, [24] * 5)
    for near in range(3):
        # The copier is led from the token to its stand-in.
        assert result.gain[near].value == pytest.approx(20 / np.log(2), abs=1e-3)
        assert result.nll[near].value == pytest.approx(0, abs=1e-3)
    for far in (3, 4):
        assert result.gain[far] == pytest.approx((0, 0, 0), abs=1e-6)
        assert result.nll[far].value == pytest.approx(np.log2(END + 1), abs=1e-5)
    for matched in result.matched:
        assert matched.value == pytest.approx(np.log2(END + 1), abs=1e-5)
    beyond = measure(PairCopier(window=11))
    assert [gain.value > 1 for gain in beyond.gain] == [True, True, False, False, False]


def test_without_context_nothing_is_gained_and_the_controls_match():
    """Controls of other tokens, or resamples of other documents, would differ from the hits."""
    probabilities = np.random.default_rng(0).random(END + 1)
    result = measure(ContextFree(probabilities / probabilities.sum()))
    for nll, matched, gain in zip(result.nll, result.matched, result.gain, strict=True):
        assert gain == pytest.approx((0, 0, 0), abs=1e-5)
        assert nll == pytest.approx(matched, abs=1e-5)


def test_the_same_whatever_the_batch():
    """The padding of the last batch must enter no figure."""
    assert measure(PairCopier(12), batch_size=5).summary() == measure(PairCopier(12), batch_size=24).summary()


def test_what_training_had_is_no_hit():
    """A pair known from training is recalled from the parameters: here all of them are."""
    many = Store([document(n) for n in range(2)])
    assert (
        ngram_hits.measure(
            uniform(END + 1), HELD_OUT, Ids(END), many, training_length=32, longest=128, batch_size=8
        )
        is None
    )


def test_counterfactual_replaces_every_earlier_occurrence_alone():
    """One occurrence left, or another token touched, and the gain would be that of something else."""
    text = np.array([7, 1, 2, 8, 1, 2, 9, 1, 3, 1, 2, 1, 2])
    found = ngram_contexts.Contexts(Store([text]), Ids(20), 16, 4)
    stand_ins = ngram_contexts.StandIns(np.arange(20))
    # Position 10 predicts the third of the four twos.
    changed = found.without((np.array([0]), np.array([10])), stand_ins)[0]
    inputs = np.array([20, *text, 0, 0])
    np.testing.assert_array_equal(np.flatnonzero(changed != inputs), [3, 6])
    assert not np.isin(changed[[3, 6]], [1, 2]).any()


def test_stand_ins_are_as_frequent():
    """A stand-in from the other end of the frequencies is recognised without any memory."""
    counts = np.random.default_rng(1).permutation(200)
    tokens = np.repeat(np.arange(200), 40)
    before = (tokens + 1) % 200
    drawn = ngram_contexts.StandIns(counts).draw(tokens, before)
    assert np.abs(counts[drawn] - counts[tokens]).max() <= 16
    assert not ((drawn == tokens) | (drawn == before)).any()
    assert len(np.unique(drawn[tokens == 50])) >= 10


def test_training_counts_by_hand(monkeypatch):
    """Pairs across two documents are none, pairs across two chunks are."""
    generator = np.random.default_rng(0)
    texts = [generator.integers(0, 5, n) for n in (1, 30, 7, 8, 2, 41)]
    expected = np.zeros((6, 6), int)
    for text in texts:
        for pair in itertools.pairwise(text):
            expected[pair] += 1
    for chunk in (1, 7, 1000):
        monkeypatch.setattr(bigrams, "_CHUNK_TOKENS", chunk)
        counts = bigrams.training_counts(Store(texts), np.arange(36), 6)
        np.testing.assert_array_equal(counts.pairs, expected.ravel())
        np.testing.assert_array_equal(counts.tokens, np.bincount(np.concatenate(texts), minlength=6))
        assert counts.total == 89


def test_last_occurrence_by_hand():
    """An occurrence that is not the last would be too far away."""
    codes = np.random.default_rng(0).integers(0, 6, (3, 40))
    for row, found in zip(codes, bigrams.last_occurrence(codes), strict=True):
        for at, last in enumerate(found):
            earlier = np.flatnonzero(row[:at] == row[at])
            assert last == (earlier[-1] if len(earlier) else -1)
