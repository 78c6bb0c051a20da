"""A real model behind the evaluators: the figures of its forward pass, whatever the batch or the devices."""

from functools import partial
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from flax import nnx
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from seqmodels.data.tasks.recall_at_distance import RecallAtDistance
from seqmodels.errors import InputError
from seqmodels.evaluation import model_scorer, perplexity, positions, recall, suites
from seqmodels.evaluation.model_scorer import ModelScorer
from seqmodels.evaluation.scorer import shared_width
from seqmodels.language_model import LanguageModel, build
from seqmodels.mixers import MIXERS, LinearAttention
from tests.evaluation.oracles import Ids, Store

VOCABULARY, END = 12, 11
STORE = Store([np.random.default_rng(n).integers(0, END, n) for n in (3, 9, 1, 17, 40)])


def make(*pattern, vocab_size=VOCABULARY, **settings):
    """A tiny model with all parameters randomised."""
    graphdef, params, _ = build(
        partial(LanguageModel, width=32, depth=len(pattern), mixers=pattern, **settings), vocab_size
    )
    leaves, tree = jax.tree.flatten(params)
    keys = jax.random.split(jax.random.key(0), len(leaves))
    noise = [0.2 * jax.random.normal(key, leaf.shape) for key, leaf in zip(keys, leaves, strict=True)]
    return graphdef, jax.tree.unflatten(tree, noise)


# The rest in the slow tests: what the contract says of states holds for every mixer.
QUICK = ("LinearAttention", "Mamba", "CompressedAttention", "LongConvolution")
MODELS = [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in MIXERS]


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return make(MIXERS[request.param])


@pytest.fixture(scope="module")
def linear():
    return make(LinearAttention)


def test_perplexity_is_that_of_each_document_alone(model):
    """Packed, padded, in batches of any size: the sum must be that of a plain forward pass a document."""
    graphdef, params = model
    forward = jax.jit(lambda params, tokens: nnx.merge(graphdef, params)(tokens)[0])
    expected = 0.0
    for a, b in zip(STORE.offsets[:-1], STORE.offsets[1:], strict=True):
        for start in range(0, b - a, 16):
            text = STORE.tokens[a:b].astype(np.int32)
            inputs = np.concatenate([[END], text])[start : min(start + 16, b - a)].astype(np.int32)
            # On the right the causal model sees no padding: one shape, one compilation.
            padded = np.zeros((1, 16), np.int32)
            padded[0, : len(inputs)] = inputs
            log_p = np.asarray(jax.nn.log_softmax(forward(params, padded)[0], axis=-1), np.float64)
            targets = text[start : start + len(inputs)]
            expected -= log_p[np.arange(len(targets)), targets].sum()
    scorer = ModelScorer(graphdef, params)
    for batch_size in (1, 4):
        result = perplexity.disjoint(scorer, STORE, Ids(END), window=16, batch_size=batch_size)
        assert result.tokens_scored == 70
        assert result.nll_sum == pytest.approx(expected, rel=1e-5)


def test_carried_state_is_the_whole_document(model):
    """With the state carried, the window is a matter of speed: the NLL is that of one pass over all."""
    scorer = ModelScorer(*model)
    whole = perplexity.disjoint(scorer, STORE, Ids(END), window=64, batch_size=2)
    carried = perplexity.stateful(scorer, STORE, Ids(END), window=8, batch_size=2)
    assert carried.tokens_scored == whole.tokens_scored
    assert carried.nll_sum == pytest.approx(whole.nll_sum, rel=1e-6)
    # An emptied state differs by more than that, even where a mixer forgets within a few tokens.
    reset = perplexity.disjoint(scorer, STORE, Ids(END), window=8, batch_size=2)
    assert abs(reset.nll_sum - whole.nll_sum) > 1e-5 * whole.nll_sum


def test_order_and_batch_change_nothing_without_a_start_token(linear):
    """Documents of 3, 9, 1 and 17 tokens have 26 targets then, in whatever order and batch they come."""
    texts = np.split(STORE.tokens, STORE.offsets[1:-1])
    sums = []
    for order, batch_size in (((0, 1, 2, 3), 1), ((3, 2, 0, 1), 2), ((2, 0, 3, 1), 8)):
        store = Store([texts[d] for d in order])
        result = perplexity.disjoint(
            ModelScorer(*linear), store, Ids(END), window=8, batch_size=batch_size, start_token=False
        )
        assert result.tokens_scored == 26
        sums.append(result.nll_sum)
    assert sums == pytest.approx([sums[0]] * 3, abs=1e-4)


def test_on_a_mesh_as_on_one_device(linear):
    """Rows split over devices, an uneven batch, and a guard against implicit transfers: the same figures."""
    graphdef, params = linear
    mesh = jax.make_mesh((4,), ("rows",), axis_types=(AxisType.Auto,))
    spread = ModelScorer(graphdef, jax.device_put(params, NamedSharding(mesh, PartitionSpec())))
    with jax.transfer_guard("disallow"):
        four, three = (
            perplexity.disjoint(spread, STORE, Ids(END), window=16, batch_size=size) for size in (4, 3)
        )
    one = perplexity.disjoint(ModelScorer(graphdef, params), STORE, Ids(END), window=16, batch_size=4)
    assert four.nll_sum == pytest.approx(one.nll_sum, rel=1e-5)
    assert three.nll_sum == pytest.approx(one.nll_sum, rel=1e-5)


def test_another_checkpoint_does_not_compile_again(linear):
    """Every evaluation during a training run has new parameters of the same shapes."""
    graphdef, params = linear

    def score(params):
        scorer = ModelScorer(graphdef, params)
        return perplexity.disjoint(scorer, STORE, Ids(END), window=16, batch_size=4).nll_sum

    first = score(params)
    compiled = model_scorer._nll._cache_size()
    assert score(jax.tree.map(lambda leaf: leaf * np.float32(0.5), params)) != first
    assert model_scorer._nll._cache_size() == compiled


def test_during_training_equals_the_evaluation_of_the_checkpoint(linear):
    """A curve that a later evaluation does not reproduce is no curve of that model."""
    store = Store([np.random.default_rng(n).integers(0, END, 120) for n in range(12)])
    data = SimpleNamespace(kind="text", validation=store, tokenizer=Ids(END))
    scorer = ModelScorer(*linear)
    values = suites.during_training(scorer, data, batch_size=4, row_length=64)
    assert values == suites.during_training(scorer, data, batch_size=4, row_length=64)
    again = perplexity.disjoint(
        scorer,
        store,
        data.tokenizer,
        window=64,
        batch_size=4,
        max_tokens=suites.DURING_TRAINING.max_tokens,
    )
    assert values["eval/bits_per_byte"] == again.bits_per_byte.value
    assert values["eval/loss"] == again.nll.value
    assert {tag for tag in values if tag.startswith("eval/repeat_gain_")} == {"eval/repeat_gain_24"}


def test_short_text_leaves_out_the_probe_that_it_is_too_short_for(linear):
    """A run on a small corpus must not end at its first evaluation."""
    data = SimpleNamespace(kind="text", validation=STORE, tokenizer=Ids(END))
    values = suites.during_training(ModelScorer(*linear), data, batch_size=4, row_length=16)
    assert set(values) == {"eval/loss", "eval/bits_per_byte", "eval/perplexity", "eval/tokens_scored"}


def test_recall_of_a_real_model():
    """The table must hold the forward pass's own answers at the task's own positions."""
    task = RecallAtDistance(pairs=2, fillers=(0, 1), queries_per_row=2, keys=8, values=8, filler_tokens=4)
    graphdef, params = make(LinearAttention, vocab_size=task.vocab_size)
    scorer = ModelScorer(graphdef, params)
    result = recall.measure(scorer, task, training_length=8, longest=16, batch_size=8, rows=12, cell_rows=2)
    assert result.bits.state_elements == scorer.state_elements(2 * result.bits.best.pairs + 2) > 0
    made = task.rows("test", 0, 12, row_length=8, interference=0, fillers=0, pairs=2)
    logits, _ = nnx.merge(graphdef, params)(
        made.batch["tokens"], segment_ids=np.asarray(made.batch["segment_ids"])
    )
    rows = np.arange(12)[:, None]
    expected = np.asarray(logits)[rows, made.batch["scored"]].argmax(axis=-1)
    np.testing.assert_array_equal(result.table["predicted"][:24].reshape(12, 2), expected)
    assert suites.during_training(scorer, task, batch_size=8, row_length=8)["eval/recall_area"] <= 1


def test_positions_end_where_the_model_does():
    """Learned positions have an end: the curves stop there, and longer windows are refused in a sentence."""
    scorer = ModelScorer(*make(LinearAttention, positions="learned", max_positions=24))
    store = Store([np.zeros(60, int)] * 9)
    data = SimpleNamespace(kind="text", validation=store, tokenizer=Ids(END))
    sizes = {"batch_size": 4, "training_length": 16}
    curve = suites.measure(["positions"], scorer, data, suites.FULL, row_length=16, **sizes)["positions"]
    assert isinstance(curve, positions.PositionCurve)
    assert curve.length == 24
    with pytest.raises(InputError, match="row_length = 32 is longer than the model's 24 positions"):
        suites.measure(["perplexity"], scorer, data, suites.FULL, row_length=32, **sizes)


def test_documents_beyond_the_last_position_are_refused_before_anything_is_scored(monkeypatch):
    """Carried on to its end, such a document would read positions that are not there."""
    scorer = ModelScorer(*make(LinearAttention, positions="learned", max_positions=12))
    monkeypatch.setattr(scorer, "nll", None)
    data = SimpleNamespace(kind="text", validation=STORE, tokenizer=Ids(END))
    sizes = {"batch_size": 2, "row_length": 8, "training_length": 8}
    message = "the longest one's 41 inputs do not fit into the model's 12 positions"
    with pytest.raises(InputError, match=message):
        suites.measure(["perplexity", "stateful"], scorer, data, suites.FULL, **sizes)
    with pytest.raises(InputError, match=message):
        perplexity.stateful(scorer, STORE, Ids(END), window=8, batch_size=2)
    with pytest.raises(InputError, match="windows of 0"):
        perplexity.stateful(scorer, STORE, Ids(END), window=0, batch_size=2)


def test_suites_that_do_not_fit_are_refused():
    """A misspelt suite, or one for other data, must not be left out in silence."""
    of_text = ("perplexity", "positions", "repeat", "ngram_hits", "needle", "memory")
    assert suites.choose(None, "text") == of_text
    assert suites.choose(["text"], "text") == ("repeat", "ngram_hits", "needle")
    assert suites.choose(["recall", "recall"], "text") == ("repeat",)
    assert suites.choose(["recall"], "recall") == ("recall",)
    with pytest.raises(InputError, match="no suite 'perplexy'"):
        suites.choose(["perplexy"], "text")
    with pytest.raises(InputError, match=r"'perplexity' does not fit recall data; .* are: recall"):
        suites.choose(["perplexity"], "recall")


def test_rows_are_padded_to_few_widths_whatever_the_length_of_training():
    """Wrong here: after training on rows of one token, doubling from nothing never ends."""
    assert [shared_width(48, length, 64) for length in (1, 3, 16, 256)] == [64, 64, 64, 64]
    assert shared_width(20, 32, 64) == 32
