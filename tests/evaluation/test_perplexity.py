"""Perplexity scores every text token once, in its own context, whatever the window, batch or order."""

import json

import numpy as np
import pytest

from seqmodels.errors import InputError, NonFiniteError
from seqmodels.evaluation import perplexity, report
from seqmodels.evaluation.json_numbers import encoded
from tests.evaluation.oracles import ContextFree, ContextLength, Ids, PreviousToken, Store, uniform

STREAM = [0, 0, 0, 0, 0, 1, 1, 1, 2, 3]
# The end-of-text id 4 has probability 0: a figure that let it in would be infinite.
STUB_4 = ContextFree([1 / 2, 1 / 4, 1 / 8, 1 / 8, 0.0])


@pytest.mark.parametrize(
    "start_token, tokens, bits, expected", [(False, 9, 16, 3.4290), (True, 10, 17, 3.2490)]
)
def test_known_stream_at_every_window_and_stride(start_token, tokens, bits, expected):
    """3.2813 would mean that the first token of each window was skipped, 4.0 a mean of window means."""
    for window in (2, 3, 4, 10, 100):
        for stride in (1, 2, 4, window):
            if stride > window:
                continue
            result = perplexity.strided(
                STUB_4,
                Store([STREAM]),
                Ids(4),
                window=window,
                stride=stride,
                batch_size=2,
                start_token=start_token,
            )
            assert result.tokens_scored == tokens
            assert result.nll_sum / np.log(2) == pytest.approx(bits, abs=1e-5)
            assert result.perplexity.value == pytest.approx(expected, abs=5e-5)
        carried = perplexity.stateful(
            STUB_4, Store([STREAM]), Ids(4), window=window, batch_size=3, start_token=start_token
        )
        assert carried.perplexity.value == pytest.approx(expected, abs=5e-5)


def test_stride_above_the_window_is_refused():
    """Tokens between two windows would silently go unscored."""
    with pytest.raises(InputError, match="stride 5 with windows of 4"):
        perplexity.strided(STUB_4, Store([STREAM]), Ids(4), window=4, stride=5, batch_size=1)


def test_bits_per_byte_counts_the_bytes_of_the_text():
    """Bits per token, per character (6) or with the end-of-text id counted would all give another figure."""
    text = "héllo\n".encode()
    by_byte = perplexity.disjoint(uniform(256), Store([list(text)]), Ids(0), window=4, batch_size=1)
    assert by_byte.bits_per_byte.value == pytest.approx(8.0, abs=1e-6)
    three = Store([[5, 300, 7]], document_bytes=[7])
    by_piece = perplexity.disjoint(uniform(512), three, Ids(511), window=2, batch_size=1)
    assert by_piece.bits_per_byte.value == pytest.approx(27 / 7, abs=1e-6)
    assert by_piece.bytes_scored == 7


def test_bytes_of_an_unscored_first_token_do_not_count():
    """Without the start token, 9 tokens are scored: dividing by 10 bytes would flatter the model."""
    result = perplexity.disjoint(STUB_4, Store([STREAM]), Ids(4), window=4, batch_size=1, start_token=False)
    assert result.bytes_scored == 9


@pytest.mark.parametrize("window, stride", [(4, 4), (4, 1), (6, 2), (6, 4)])
def test_every_token_sees_the_context_of_the_protocol(window, stride):
    """Behind the first window a token has window - stride to window - 1 inputs before its own one."""
    length = 23
    store = Store([np.arange(length) % 7])
    seen = []

    class Recorder(ContextLength):
        def nll(self, tokens, segment_ids, targets):
            values = super().nll(tokens, segment_ids, targets)
            seen.append((tokens, values))
            return values

    result = perplexity.strided(Recorder(9), store, Ids(8), window=window, stride=stride, batch_size=1)
    # Input i (from 0) is the last of context: i + 1 inputs in the first window, then window - stride + 1 to
    # window.
    expected = [i + 1 if i < window else window - stride + 1 + (i - window) % stride for i in range(length)]
    assert result.nll_sum == sum(expected)
    assert result.end_of_text_targets == 1


def test_independent_of_batch_size_order_and_packing():
    """A figure that moves with the batch size scores or attends padding; one that moves with order leaks."""
    generator = np.random.default_rng(1)
    documents = [generator.integers(0, 11, n) for n in (3, 9, 1, 17, 40, 2, 5)]
    scorer = PreviousToken(12)
    expected = 0.0
    for document in documents:
        inputs = [11, *document]
        for i, target in enumerate(document):
            before = inputs[i - 1] if i % 8 else 0
            expected -= float(scorer.table[(before + 3 * inputs[i]) % 12, target])
    for order in (range(7), [4, 0, 6, 2, 1, 5, 3]):
        store = Store([documents[i] for i in order])
        for batch_size in (1, 2, 3, 8):
            result = perplexity.disjoint(scorer, store, Ids(11), window=8, batch_size=batch_size)
            assert result.tokens_scored == 77
            assert result.nll_sum == pytest.approx(expected, rel=1e-6)


def test_scored_count_without_a_start_token():
    """Documents of 3, 9, 1 and 17 tokens have 2 + 8 + 0 + 16 targets when the first is context only."""
    store = Store([np.zeros(n, int) for n in (3, 9, 1, 17)])
    result = perplexity.disjoint(uniform(4), store, Ids(3), window=8, batch_size=2, start_token=False)
    assert result.tokens_scored == 26
    assert result.end_of_text_targets == 4


@pytest.mark.parametrize("protocol", ["strided", "stateful"])
def test_table_shows_what_each_token_was_conditioned_on(protocol):
    """Of the first token it makes the difference of 39 and 17 million; nothing else may change with it."""
    options = {"window": 4, "batch_size": 2, "per_token": True}
    if protocol == "strided":
        options["stride"] = 2
    score = getattr(perplexity, protocol)
    store = Store([STREAM, [3, 2, 1]])
    scorer = ContextFree([0.4, 0.2, 0.1, 0.1, 0.2])
    found, without = (score(scorer, store, Ids(4), **options, start_token=start) for start in (True, False))
    table = found.table
    np.testing.assert_array_equal(table["document"], [0] * 11 + [1] * 4)
    np.testing.assert_array_equal(table["position"], [*range(11), *range(4)])
    np.testing.assert_array_equal(table["conditioning_id"], [4, *STREAM, 4, 3, 2, 1])
    np.testing.assert_array_equal(table["token_id"], [*STREAM, 4, 3, 2, 1, 4])
    text = table["token_id"] != 4
    assert table["nll_nats"][text].sum(dtype=np.float64) == pytest.approx(found.nll_sum, rel=1e-12)
    later = table["position"] > 0
    for name in ("document", "conditioning_id", "token_id", "nll_nats"):
        np.testing.assert_array_equal(table[name][later], without.table[name])
    assert "table" not in found.summary()


def test_carried_state_is_named():
    """A full cache and a state of one size are two protocols; windows that begin anew carry nothing."""
    scorer = ContextFree([1 / 2, 1 / 4, 1 / 8, 1 / 8, 0.0])
    options = {"window": 4, "batch_size": 2}
    assert perplexity.disjoint(scorer, Store([STREAM]), Ids(4), **options).carried is None
    for width, kind in (
        (lambda length: 3 * length, "a full cache, 33"),
        (lambda _: 7, "a state of one size, 7"),
    ):
        scorer.init_state = lambda batch, length, width=width: np.zeros((batch, width(length)), np.float32)
        carried = perplexity.stateful(scorer, Store([STREAM]), Ids(4), **options).carried
        assert carried == f"{kind} numbers for the longest document of 11 inputs"


def test_sample_is_fixed_exact_and_cut_short():
    """Evaluations during training must score the same tokens each time, and exactly as many as asked for."""
    generator = np.random.default_rng(2)
    store = Store([generator.integers(0, 11, n) for n in (30, 9, 12, 17, 40)])
    first, second = (
        perplexity.disjoint(PreviousToken(12), store, Ids(11), window=8, batch_size=size, max_tokens=50)
        for size in (2, 5)
    )
    assert first.tokens_scored == first.bytes_scored == 50
    assert first.nll_sum == pytest.approx(second.nll_sum, rel=1e-6)
    assert first.end_of_text_targets == first.documents - 1


def test_interval_resamples_documents():
    """Two documents of opposite difficulty: an interval over tokens would be far too narrow."""
    store = Store([[0] * 50, [3] * 50] * 4)
    result = perplexity.disjoint(STUB_4, store, Ids(4), window=16, batch_size=4)
    assert result.nll.low < result.nll.value - 0.3
    assert result.nll.high > result.nll.value + 0.3
    again = perplexity.disjoint(STUB_4, store, Ids(4), window=16, batch_size=3)
    assert again == result


def test_one_document_has_no_interval():
    """1.7 (1.7 to 1.7) would be certainty, of one text that says nothing of the next; JSON has no NaN."""
    result = perplexity.disjoint(STUB_4, Store([STREAM]), Ids(4), window=16, batch_size=1)
    for figure in (result.nll, result.perplexity, result.bits_per_byte):
        assert np.isfinite(figure.value)
        assert np.isnan([figure.low, figure.high]).all()
    written = json.loads(json.dumps(encoded(result.summary()), allow_nan=False))
    assert written["bits_per_byte"] == {"value": result.bits_per_byte.value, "low": None, "high": None}
    table = report.rows({"perplexity": result}, None)
    assert [interval for _, _, interval, _ in table] == ["interval not known"] * 2


def test_what_cannot_be_scored_is_refused():
    """An empty split, an id outside the vocabulary, a diverged model: a sentence each, and no figure."""
    with pytest.raises(InputError, match="no token to score"):
        perplexity.disjoint(STUB_4, Store([[]]), Ids(4), window=4, batch_size=1)
    with pytest.raises(InputError, match="token id 9"):
        perplexity.disjoint(STUB_4, Store([[1, 9]]), Ids(4), window=4, batch_size=1)
    for protocol in (perplexity.disjoint, perplexity.stateful):
        with pytest.raises(InputError, match="windows of 0"):
            protocol(STUB_4, Store([STREAM]), Ids(4), window=0, batch_size=1)
    broken = uniform(5)
    broken.nll = lambda tokens, segment_ids, targets: np.full(tokens.shape, np.nan, np.float32)
    with pytest.raises(NonFiniteError):
        perplexity.disjoint(broken, Store([STREAM]), Ids(4), window=4, batch_size=1)


def test_summary_names_the_protocol():
    """A perplexity without its window, stride and start-token rule cannot be compared with another one."""
    summary = perplexity.strided(STUB_4, Store([STREAM]), Ids(4), window=4, stride=2, batch_size=1).summary()
    assert summary["protocol"] == "strided(4, 2)"
    assert (summary["window"], summary["stride"], summary["dtype"]) == (4, 2, "float32")
    assert summary["first_token"] == "scored after the end-of-text id"
