"""A continuation is scored by its own tokens alone, wherever the prompt ends."""

import numpy as np
import pytest

from seqmodels.errors import InputError
from seqmodels.evaluation import perplexity
from seqmodels.evaluation.continuation import continuation_nll
from seqmodels.evaluation.model_scorer import ModelScorer
from seqmodels.mixers import LinearAttention
from tests.evaluation.oracles import Ids, PreviousToken, Store
from tests.evaluation.test_model_scorer import END, make

PROMPT, CONTINUATION = [3, 1, 4], [1, 5]


def test_scored_are_exactly_the_tokens_of_the_continuation():
    """Shifted by one, the last token of the prompt would be scored and the last one of the text not."""
    scorer = PreviousToken(12)
    found = continuation_nll(scorer, PROMPT, CONTINUATION, start_id=END)
    expected = [-scorer.table[(1 + 3 * 4) % 12, 1], -scorer.table[(4 + 3 * 1) % 12, 5]]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("start_id", [None, END])
def test_likelihoods_of_parts_add_up(start_id):
    """NLL(prompt + continuation) - NLL(prompt) = NLL(continuation | prompt), for a real model."""
    scorer = ModelScorer(*make(LinearAttention))
    begin = PROMPT[:1] if start_id is None else []

    def whole(ids):
        return continuation_nll(scorer, begin, ids[len(begin) :], start_id=start_id).sum(dtype=np.float64)

    part = continuation_nll(scorer, PROMPT, CONTINUATION, start_id=start_id)
    assert part.shape == (2,)
    assert whole(PROMPT + CONTINUATION) - whole(PROMPT) == pytest.approx(float(part.sum()), abs=1e-4)
    assert whole(PROMPT[: len(begin)]) == 0
    store = Store([PROMPT + CONTINUATION])
    corpus = perplexity.disjoint(
        scorer, store, Ids(END), window=8, batch_size=1, start_token=start_id is not None
    )
    assert whole(PROMPT + CONTINUATION) == pytest.approx(corpus.nll_sum, abs=1e-4)


def test_what_cannot_be_scored_is_refused():
    """A first token without anything before it, and an id that the model does not know."""
    with pytest.raises(InputError, match="nothing stands before the continuation"):
        continuation_nll(PreviousToken(12), [], CONTINUATION)
    with pytest.raises(InputError, match="token id 12 is outside"):
        continuation_nll(PreviousToken(12), [12], CONTINUATION)
