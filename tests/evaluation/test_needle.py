"""The needle on oracles, and its prompts taken apart: one key, one value, the length asked for."""

import numpy as np
import pytest

from seqmodels.evaluation import needle, needle_prompts
from tests.evaluation.oracles import ContextFree, Ids, Store, uniform

VOCABULARY = 300
TEXT = Store([np.arange(5000) * 7919 % 5003 % VOCABULARY])
LENGTHS = [64, 128, 256]


class KeyCopier(ContextFree):
    """Predicts what followed the last four tokens, if that value stands at most `window` tokens back."""

    def __init__(self, window=1 << 30):
        super().__init__(np.full(VOCABULARY + 1, 1 / (VOCABULARY + 1)))
        self._window = window

    def logits(self, tokens, segment_ids, positions):
        out = np.zeros((*positions.shape, self.vocab_size), np.float32)
        for row, ids in enumerate(tokens):
            for n, position in enumerate(positions[row]):
                key = ids[position - 3 : position + 1]
                for end in range(max(3, position - self._window - 1), position):
                    if (ids[end - 3 : end + 1] == key).all():
                        out[row, n, ids[end + 1]] = 20.0
        return out


def measure(scorer, batch_size=16, **settings):
    settings = {"training_length": 128, "longest": 256, **settings}
    return needle.measure(scorer, TEXT, Ids(VOCABULARY), batch_size=batch_size, **settings)


def test_perfect_memory_finds_every_needle():
    """Anything below 1 means that the wrong position is read, or another token expected."""
    result = measure(KeyCopier())
    np.testing.assert_array_equal(result.lengths, LENGTHS)
    assert (result.rank == 1).all() and result.exact.all()
    assert all(estimate.value == 1.0 for estimate in result.by_length(result.exact))


@pytest.mark.parametrize("window", [62, 63, 64])
def test_copier_flips_exactly_behind_its_window(window):
    """A distance off by one would blame a memory of that length."""
    result = measure(KeyCopier(window), prompts=8)
    distance = result.table["distance"]
    assert 63 in distance
    assert (result.table["rank"][distance <= window] == 1).all()
    assert not (result.table["predicted"] == result.table["answer"])[distance > window].any()


def test_knowing_nothing_is_chance():
    """Ties must not count as right: 1 of 16, and a mean rank of 8.5."""
    result = measure(uniform(VOCABULARY + 1), prompts=256)
    for first, rank in zip(result.by_length(result.rank == 1), result.mean_rank(), strict=True):
        assert first.low <= 1 / 16 <= first.high
        assert rank.low <= 8.5 <= rank.high
    np.testing.assert_allclose(result.table["nll_bits"], np.log2(VOCABULARY + 1), rtol=1e-6)


def test_none_and_all_are_not_certain():
    """Of 32 prompts without a needle found, or with each found, some percent may be otherwise."""
    all_found, none_found = measure(KeyCopier()), measure(KeyCopier(window=0))
    for found, value in ((all_found, 1.0), (none_found, 0.0)):
        for exact in found.by_length(found.exact):
            assert exact.value == value
            assert 0.05 < exact.high - exact.low < 0.1
    for rank in all_found.mean_rank():
        assert (rank.value, rank.low) == (1.0, 1.0)
        assert 1.5 < rank.high < 2.5


def test_prompts_by_part():
    """The key twice and nowhere else, the value behind the first, E in front, the length as asked for."""
    made = needle_prompts.draw(TEXT.tokens, VOCABULARY, LENGTHS, 32, seed=0)
    for length in LENGTHS:
        for depth in needle.DEPTHS:
            rows, distance = made.rows(length, depth)
            assert rows.shape == (32, length) and rows.dtype == np.int32
            for row, key, value, candidates in zip(rows, made.key, made.value, made.candidates, strict=True):
                places = [i for i in range(length - 3) if (row[i : i + 4] == key).all()]
                assert len(places) == 2 and places[1] == length - 4
                assert row[places[0] + 4] == value
                assert length - 1 - (places[0] + 4) == distance
                assert row[0] == VOCABULARY and (row[1:] < VOCABULARY).all()
                assert len(set(candidates) | set(key)) == 20 and value in candidates
                assert np.isin(candidates, row).all()
                assert places[0] - 1 == round(depth * (length - 10))


def test_same_seed_same_prompts():
    """Prompts that differ between machines cannot be compared; those of another seed must differ."""
    first = needle_prompts.draw(TEXT.tokens, VOCABULARY, LENGTHS, 16, seed=0)
    more = needle_prompts.draw(TEXT.tokens, VOCABULARY, LENGTHS, 17, seed=0)
    other = needle_prompts.draw(TEXT.tokens, VOCABULARY, LENGTHS, 16, seed=1)
    assert first.hash() == "dacbce2be453abb3382ff37400a06a63"
    np.testing.assert_array_equal(first.rows(128, 0.5)[0], more.rows(128, 0.5)[0][:16])
    assert first.hash() != other.hash()


def test_the_same_whatever_the_batch():
    """The repetitions that fill the last batch must enter no figure."""
    one, two = measure(KeyCopier(60), batch_size=7), measure(KeyCopier(60), batch_size=16)
    assert one.summary() == two.summary()
    for name in one.table:
        np.testing.assert_array_equal(one.table[name], two.table[name])


def test_needs_room_and_different_tokens():
    """Prompts cut short, or fewer candidates than chance says, would each give another figure."""
    assert measure(uniform(VOCABULARY + 1), longest=64).lengths.tolist() == [64]
    assert measure(uniform(VOCABULARY + 1), longest=63) is None
    assert measure(uniform(VOCABULARY + 1), training_length=16, longest=64).lengths.tolist() == [64]
    poor = Store([np.arange(5000) % 15])
    settings = {"training_length": 128, "longest": 256, "batch_size": 4}
    assert needle.measure(uniform(VOCABULARY + 1), poor, Ids(VOCABULARY), **settings) is None
    short = Store([np.arange(100)])
    found = needle.measure(uniform(VOCABULARY + 1), short, Ids(VOCABULARY), **settings)
    assert found.lengths.tolist() == [64]
