"""A model whose numbers have overflowed has no figures: no evaluator gives ordinary ones."""

import numpy as np
import pytest

from seqmodels.errors import NonFiniteError
from seqmodels.evaluation import interventions, ngram_hits, positions, recall, recalled_bits, repeat
from seqmodels.evaluation.receptive_field import replacement
from seqmodels.evaluation.scorer import most_likely, nll_of_logits
from tests.evaluation import test_needle, test_ngram_hits
from tests.evaluation.intervention_oracles import TASK, Blind
from tests.evaluation.oracles import Ids
from tests.evaluation.test_receptive_field import VOCABULARY, rows

END = test_ngram_hits.END
TEXT = (test_ngram_hits.HELD_OUT, Ids(END))
SIZES = {"training_length": 32, "longest": 64}


class Overflown(Blind):
    """Uniform, but for one logit, and for the loss, which are `number`."""

    def __init__(self, vocab_size, number):
        super().__init__(np.full(vocab_size, 1 / vocab_size))
        self._number = np.float32(number)

    def nll(self, tokens, segment_ids, targets):
        return np.full(tokens.shape, self._number)

    def logits(self, tokens, segment_ids, positions):
        out = np.array(super().logits(tokens, segment_ids, positions))
        out[..., 3] = self._number
        return out


@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize(
    "evaluate",
    [
        lambda scorer: recall.measure(scorer(TASK.vocab_size), TASK, **SIZES, batch_size=4, rows=4),
        lambda scorer: interventions.measure(scorer(TASK.vocab_size), TASK, longest=64, batch_size=4, rows=4),
        lambda scorer: replacement(scorer(VOCABULARY), rows(4), batch_size=4),
        lambda scorer: repeat.measure(scorer(END + 1), *TEXT, **SIZES, batch_size=4, passages=4),
        lambda scorer: test_needle.measure(scorer(test_needle.VOCABULARY + 1), prompts=4),
        lambda scorer: ngram_hits.measure(
            scorer(END + 1), *TEXT, test_ngram_hits.TRAINING, **SIZES, batch_size=4
        ),
        lambda scorer: positions.measure(scorer(END + 1), *TEXT, **SIZES, tokens_per_batch=256),
    ],
    ids=["recall", "interventions", "replacement", "repeat", "needle", "ngram_hits", "positions"],
)
def test_no_evaluator_gives_figures_of_a_model_that_has_none(evaluate, number):
    """NaN is the largest of logits and no bit less than 0: accuracies and recalled bits would look like 0."""
    with pytest.raises(NonFiniteError, match=r"the evaluation's .* are not finite"):
        evaluate(lambda vocab_size: Overflown(vocab_size, number))


def test_single_logits_may_say_never():
    """A model may exclude tokens, even the right one, which then costs an infinity of bits; but not all."""
    logits = np.array([[0.0, -np.inf, 0.0]], np.float32)
    np.testing.assert_allclose(nll_of_logits(logits, np.array([2])), np.log(2), rtol=1e-6)
    assert nll_of_logits(logits, np.array([1])) == np.inf
    assert most_likely(logits) == 0
    for judged in (most_likely, lambda logits: nll_of_logits(logits, np.array([0]))):
        with pytest.raises(NonFiniteError, match="logits"):
            judged(np.full((1, 3), -np.inf, np.float32))


def test_recalled_bits_of_nan_are_nan():
    """What is no number is not nothing."""
    estimate, _ = recalled_bits.recalled(np.array([np.nan, 1.0]), np.array([0, 0]), 1)
    assert np.isnan(estimate.value)
