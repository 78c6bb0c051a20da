"""The repeat probe, the loss by position and the byte models, on oracles and by hand."""

import math

import numpy as np
import pytest

from seqmodels.evaluation import positions, repeat
from seqmodels.evaluation.byte_model import ByteModel
from tests.evaluation.oracles import ContextFree, ContextLength, Ids, Store, uniform

VOCABULARY = 50


class TextCopier(ContextFree):
    """Predicts, with near certainty, the token that followed this one at most `window` tokens ago."""

    def __init__(self, window):
        super().__init__(np.full(VOCABULARY + 1, 1 / (VOCABULARY + 1)))
        self._window = window

    def logits(self, tokens, segment_ids, positions):
        out = np.zeros((*positions.shape, self.vocab_size), np.float32)
        for row in range(tokens.shape[0]):
            for n, position in enumerate(positions[row]):
                at = np.flatnonzero(tokens[row, :position] == tokens[row, position])
                if len(at) and position - at[-1] <= self._window:
                    out[row, n, tokens[row, at[-1] + 1]] = 20.0
        return out


def distinct_text():
    """Text in which a token comes back after VOCABULARY others; a third of it is no multiple of that."""
    return Store([np.arange(3030) % VOCABULARY])


def probe(scorer, store=None, **settings):
    settings = {
        "training_length": 64,
        "longest": 128,
        "batch_size": 8,
        "passages": 24,
        "passage_length": 8,
        **settings,
    }
    return repeat.measure(scorer, store or distinct_text(), Ids(VOCABULARY), **settings)


def test_repeat_distances_and_control():
    """The two rows must differ in the first passage alone; anything else would enter the gain."""
    result = probe(uniform(VOCABULARY + 1))
    np.testing.assert_array_equal(result.distances, [8, 16, 32, 64])
    assert all(gain.value == 0 for gain in result.gain)
    source = repeat._Passages(distinct_text().tokens, VOCABULARY, 5, 8)
    for distance in result.distances:
        copy, control = source.rows(distance, control=False), source.rows(distance, control=True)
        assert copy.shape == (5, distance + 8)
        assert (copy[:, 0] == VOCABULARY).all()
        np.testing.assert_array_equal(copy[:, 1 : 1 + 7], copy[:, 1 + distance :])
        np.testing.assert_array_equal(copy[:, 9:], control[:, 9:])
        assert (copy[:, 1:9] != control[:, 1:9]).any()


def test_repeat_gain_ends_at_the_copiers_window():
    """The gain must be there up to the documented distance, and gone at the next one."""
    result = probe(TextCopier(window=16))
    near = [gain for gain, d in zip(result.gain, result.distances, strict=True) if d <= 16]
    far = [gain for gain, d in zip(result.gain, result.distances, strict=True) if d > 16]
    assert len(near) == 2 and len(far) == 2
    # The copy's first token has nothing to be recognised by; the 7 others go from log2 51 bits to none.
    for gain in near:
        assert gain.value == pytest.approx(7 / 8 * np.log2(51), abs=1e-3)
    for gain in far:
        assert gain.value == pytest.approx(0, abs=1e-3)
    # 24 passages whose copy is always read right, but for its first token, and controls that never are.
    for accuracy in result.accuracy[:2]:
        assert accuracy.high - accuracy.low > 0.05
    assert result.horizon50 == pytest.approx([16 * 2**0.5] * 3, rel=1e-3)


def test_no_reach_from_rounding_noise():
    """Half of a gain of a millionth of a bit would be reached at some distance, or never fallen below."""
    random = np.random.default_rng(1)  # a gain that happens to be positive

    class Rounding(ContextFree):
        def logits(self, tokens, segment_ids, positions):
            exact = super().logits(tokens, segment_ids, positions)
            return exact + random.normal(0, 1e-5, exact.shape).astype(np.float32)

    result = probe(Rounding(np.full(VOCABULARY + 1, 1 / (VOCABULARY + 1))))
    assert result.gain[0].low < 0 < result.gain[0].value < 1e-5
    assert result.horizon50.value == 0


def test_repeat_is_the_same_whatever_the_batch():
    """The padding of the last batch must not be counted as a passage."""
    assert probe(TextCopier(16), batch_size=5).summary() == probe(TextCopier(16), batch_size=24).summary()


def test_repeat_needs_room():
    """In a split too short for three of its rows, passage, control and filler would overlap."""
    assert probe(uniform(VOCABULARY + 1), Store([np.arange(47)])) is None
    assert probe(uniform(VOCABULARY + 1), Store([np.arange(48)])).distances.tolist() == [8]
    assert probe(uniform(VOCABULARY + 1), longest=15) is None


def test_positions_use_the_same_documents_throughout():
    """Every point must average all documents of the curve, each from its first token."""
    store = Store([np.zeros(n, int) for n in (200, 130, 128, 40, 7)] + [np.zeros(128, int)] * 6)
    curve = positions.measure(
        ContextLength(2), store, Ids(1), training_length=32, longest=128, tokens_per_batch=300
    )
    assert (curve.documents, curve.length) == (9, 128)
    np.testing.assert_allclose(curve.nll, (curve.first + curve.last) / 2)
    assert (curve.first[0], curve.last[-1]) == (1, 128)
    np.testing.assert_array_equal(curve.first[1:], curve.last[:-1] + 1)


def test_positions_shorten_where_documents_are_short():
    """A curve over two documents says nothing: the longest halving that enough documents have is used."""
    short = Store([np.zeros(70, int)] * 9 + [np.zeros(500, int)])
    curve = positions.measure(
        uniform(2), short, Ids(1), training_length=64, longest=256, tokens_per_batch=100
    )
    assert (curve.documents, curve.length) == (10, 64)
    assert (
        positions.measure(
            uniform(2), Store([[0] * 9] * 9), Ids(1), training_length=64, longest=64, tokens_per_batch=9
        )
        is None
    )


def test_byte_model_by_hand():
    """Witten-Bell from its equation in plain loops, over documents that must not run together."""
    training, held_out = [b"abracadabra", b"ab", b"", b"cabs"], [b"abraxas", b"c", b"bad"]
    model = ByteModel(training, order=3)

    def probability(history, byte, order):
        if order < 0:
            return 1 / 256
        context = history[len(history) - order :]
        followers = [
            document[i]
            for document in training
            for i in range(order, len(document))
            if document[i - order : i] == context
        ]
        lower = probability(history, byte, order - 1)
        kinds = len(set(followers))
        if not followers:
            return lower
        return (followers.count(byte) + kinds * lower) / (len(followers) + kinds)

    for order, measured in enumerate(model.bits_per_byte(held_out)):
        bits = [
            -math.log2(probability(document[:i], byte, min(order, i)))
            for document in held_out
            for i, byte in enumerate(document)
        ]
        assert measured == pytest.approx(sum(bits) / len(bits), abs=1e-12)
