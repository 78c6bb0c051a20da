"""Interventions: a perfect memory does what each of them asks, and what ignores the context does not."""

import itertools
import json
from typing import NamedTuple

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from seqmodels.data.tasks.parity import Parity
from seqmodels.data.tasks.recall_at_distance import RecallAtDistance
from seqmodels.errors import InputError
from seqmodels.evaluation import (
    artifacts,
    interventions,
    model_scorer,
    plots,
    plots_interventions,
    report,
    suites,
)
from seqmodels.evaluation.model_scorer import ModelScorer
from seqmodels.evaluation.row_interventions import (
    Rows,
    key_swap,
    other_values,
    pair_deletion,
    truncated,
    value_swap,
)
from seqmodels.evaluation.state_interventions import quantised, without_all_layers, without_layer
from seqmodels.mixers import MIXERS, LinearAttention, SoftmaxAttention
from tests.evaluation.oracles import ContextFree
from tests.evaluation.test_model_scorer import MODELS, make

TASK = RecallAtDistance(
    pairs=(2, 4), fillers=(0, 3, 7), queries_per_row=3, keys=10, values=32, filler_tokens=8
)
ROWS = 200


class Layer(NamedTuple):
    """memory [B, keys, values] float32: 1 where a key was last written with a value."""

    memory: np.ndarray
    last_id: np.ndarray


class State(NamedTuple):
    layers: tuple[Layer, ...]


class PerfectMemory:
    """Remembers every pair, in layer 0 of two; of a key that it does not know it says a random value."""

    dtype = "float32"
    max_positions = None

    def __init__(self, task):
        self._task, self.vocab_size = task, task.vocab_size
        self._random = np.random.default_rng(0)

    def init_state(self, batch_size, max_length):
        return State(tuple(Layer(self._empty(batch_size), np.zeros(batch_size, np.int32)) for _ in range(2)))

    def _empty(self, batch_size):
        return np.zeros((batch_size, self._task.keys, self._task.values), np.float32)

    def state_after(self, tokens, segment_ids, state=None):
        state = self.init_state(*tokens.shape) if state is None else state
        memory = np.array(state.layers[0].memory)
        for row, (ids, segments) in enumerate(zip(tokens, segment_ids, strict=True)):
            real = ids[segments != 0]
            for key, value in itertools.pairwise(real):
                if key in self._task.key_ids and value in self._task.value_ids:
                    memory[row, key - self._task.key_ids.start] = 0
                    memory[row, key - self._task.key_ids.start, value - self._task.value_ids.start] = 1
        return State((Layer(memory, np.ones(len(tokens), np.int32)), state.layers[1]))

    def logits_from_state(self, tokens, segment_ids, positions, state):
        memory = self.state_after(tokens, segment_ids, state).layers[0].memory
        out = np.zeros((*positions.shape, self.vocab_size), np.float32)
        for row, places in enumerate(positions):
            for query, place in enumerate(places):
                known = memory[row, tokens[row, place] - self._task.key_ids.start]
                guess = self._random.random(self._task.values) * 0.1 * (known.max() == 0)
                out[row, query, self._task.value_ids.start :] = known + guess
        return out

    def logits(self, tokens, segment_ids, positions):
        return self.logits_from_state(tokens, segment_ids, positions, self.init_state(*tokens.shape))


class Blind(ContextFree):
    """Says the same value whatever it reads; its state is of two layers that it does not read."""

    def init_state(self, batch_size, max_length):
        empty = Layer(np.zeros((batch_size, 1), np.float32), np.zeros(batch_size, np.int32))
        return State((empty, empty))

    def state_after(self, tokens, segment_ids, state=None):
        return state

    def logits_from_state(self, tokens, segment_ids, positions, state):
        return self.logits(tokens, segment_ids, positions)


def measure(scorer, batch_size=64, **settings):
    return interventions.measure(scorer, TASK, longest=64, batch_size=batch_size, rows=ROWS, **settings)


@pytest.fixture(scope="module")
def perfect():
    return measure(PerfectMemory(TASK))


def test_a_perfect_memory_does_what_each_intervention_asks(perfect):
    """An intervention that changes another pair than it says, or a share of another answer, shows here."""
    for effect in perfect.all_effects:
        if np.isnan(effect.perfect):
            continue
        for share, expected in ((effect.before, effect.perfect_before), (effect.after, effect.perfect)):
            if expected in (0, 1):
                assert share.value == expected, effect
            else:
                # The guess that `perfect` counts with is the expectation of what was drawn.
                assert share.low <= expected <= share.high, effect
        assert effect.change.low <= effect.after.value - effect.before.value <= effect.change.high
    assert {effect.name for effect in perfect.effects if effect.perfect in (0, 1)} == {
        "value_swap",
        "value_swap_old",
        "key_swap",
        "transplant",
        "transplant_old",
    }


def test_the_layer_that_remembers_is_found(perfect):
    """Emptying the layer of the memory takes all of it, and emptying the other one nothing."""
    first, second, every = perfect.layers
    assert first.before.value == second.after.value == 1
    for gone in (first, every):
        assert gone.after.low <= 1 / 32 <= gone.after.high
        assert gone.change.high < -0.9


def test_what_ignores_the_context_is_at_chance():
    """A figure that a guess can reach says nothing of memory."""
    probabilities = np.full(TASK.vocab_size, 1e-3)
    probabilities[TASK.value_ids.start + 5] = 1
    result = measure(Blind(probabilities / probabilities.sum()))
    for effect in result.all_effects:
        assert effect.after.low <= 1 / 32 <= effect.after.high, effect
        if effect.name not in {"value_swap", "value_swap_old", "key_swap", "transplant", "transplant_old"}:
            assert effect.change.value == 0
        assert abs(effect.change.value) < 0.1


def test_context_flips_at_the_distance_of_the_pair(perfect):
    """A row cut one token too early or too late would be right without its pair, or wrong with it."""
    made = TASK.rows("test", 0, ROWS, pairs=4, fillers=3, queries_per_row=1)
    distance = made.metadata["distance"][:, 0]
    assert perfect.kept == [1, 2, 4, 8, 16]
    for kept, effect in zip(perfect.kept, perfect.context, strict=True):
        least = (distance + 1 <= kept).mean()
        assert least <= effect.after.value <= least + 0.1
    assert perfect.context[0].after.value < 0.1
    assert perfect.context[-1].change.value == 0


def rows(count=50):
    made = TASK.rows("test", 0, count, pairs=4, fillers=3, queries_per_row=1)
    target = 3 - made.metadata["interference"][:, 0]
    alphabets = TASK.key_ids, TASK.value_ids, TASK.filler_ids
    return Rows(made.batch["tokens"], 4, target, *alphabets)


def test_rows_are_changed_where_they_should_and_nowhere_else():
    """An intervention that also moves another token tests two things at once."""
    before = rows()
    row, key = np.arange(50), 2 * before.target
    swap, deletion, exchange, other = (
        change(before) for change in (value_swap, pair_deletion, key_swap, other_values)
    )
    assert ((swap.tokens != before.tokens).sum(axis=1) == 1).all()
    np.testing.assert_array_equal(swap.tokens[row, key + 1], swap.answer)
    assert not (swap.answer[:, None] == before.values).any()
    assert np.isin(swap.answer, TASK.value_ids).all()

    assert ((deletion.tokens != before.tokens).sum(axis=1) == 2).all()
    assert not (deletion.tokens[row, key][:, None] == before.keys).any()
    assert not (deletion.tokens[row, key + 1][:, None] == before.values).any()
    assert np.isin(deletion.tokens[row, key], TASK.key_ids).all()

    assert ((exchange.tokens != before.tokens).sum(axis=1) == 2).all()
    assert (exchange.answer != before.answer).all()
    assert exchange.counted.all()
    np.testing.assert_array_equal(np.sort(exchange.tokens, axis=1), np.sort(before.tokens, axis=1))

    np.testing.assert_array_equal(other.tokens[:, 0:8:2], before.keys)
    np.testing.assert_array_equal(other.tokens[:, -1], before.tokens[:, -1])
    assert (other.tokens[:, 1:8:2] != before.values).all()
    assert np.isin(other.tokens[:, 1:8:2], TASK.value_ids).all()
    assert np.isin(other.tokens[:, 8:-1], TASK.filler_ids).all()


def test_rows_whose_pairs_all_agree_are_not_counted():
    """Keys that change places between equal values leave the answer as it was."""
    equal = rows()
    tokens = equal.tokens.copy()
    tokens[:, 1:8:2] = TASK.value_ids.start
    assert not key_swap(equal._replace(tokens=tokens)).counted.any()


def test_truncated_rows_end_as_before():
    """The query must stay where it is, behind as many tokens as were asked for."""
    before = rows(3)
    tokens, segment_ids = truncated(before, np.array([0, 2, 11]))
    np.testing.assert_array_equal(segment_ids.sum(axis=1), [1, 3, 12])
    np.testing.assert_array_equal(tokens[:, -1], before.tokens[:, -1])
    np.testing.assert_array_equal(tokens[2], before.tokens[2])
    np.testing.assert_array_equal(tokens[1], np.concatenate([np.zeros(9), before.tokens[1, 9:]]))


def test_batches_and_repetitions_agree(perfect):
    """A figure that depends on the batch, or on when it is made, cannot be compared."""
    scorer = ModelScorer(*make(LinearAttention, vocab_size=TASK.vocab_size))
    one, two = (measure(scorer, batch_size=size) for size in (64, 23))
    assert json.dumps(one.summary()) == json.dumps(two.summary())
    assert perfect.rows_hash == one.rows_hash


def test_quantised_to_bits():
    """Levels of another number, one scale for all rows, or a rounded count would each change what b means."""
    x = np.array([[1.0, -0.4, 0.26, 0.0], [8.0, -1.0, 3.0, 0.0]], np.float32)
    state = State((Layer(x, np.array([7, 300], np.int32)),))
    for bits, expected in (
        (2, [[1, 0, 0, 0], [8, 0, 0, 0]]),
        (3, [[1, -1 / 3, 1 / 3, 0], [8, 0, 8 / 3, 0]]),
        (1, [[1.66 / 3, -1.66 / 3, 1.66 / 3, 0], [4, -4, 4, 0]]),
    ):
        layer = quantised(state, bits).layers[0]
        np.testing.assert_allclose(layer.memory, expected, rtol=1e-6)
        np.testing.assert_array_equal(layer.last_id, [7, 300])
    for bits in (4, 8):
        error = np.abs(quantised(state, bits).layers[0].memory - x).max(axis=1)
        assert (error <= x.max(axis=1) / (2 ** (bits - 1) - 1) / 2 + 1e-6).all()
    with pytest.raises(ValueError, match="at least 1"):
        quantised(state, 0)


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return make(MIXERS[request.param], vocab_size=TASK.vocab_size)


def test_a_row_in_two_pieces_is_the_whole_row(model):
    """Interventions on the state change nothing else: without one, the split itself must not show."""
    scorer, tokens = ModelScorer(*model), rows(6).tokens
    ones, last = np.ones_like(tokens), np.full((6, 1), tokens.shape[1] - 1, np.int32)
    whole = scorer.logits(tokens, ones, last)
    state = scorer.state_after(tokens[:, :8], ones[:, :8], scorer.init_state(6, tokens.shape[1]))
    split = scorer.logits_from_state(tokens[:, 8:], ones[:, 8:], last - 8, state)
    np.testing.assert_allclose(split, whole, rtol=1e-5, atol=1e-5)
    # Nothing reaches the query beside the state: emptied, it leaves what the rest alone gives.
    alone = scorer.logits(tokens[:, 8:], ones[:, 8:], last - 8)
    emptied = scorer.logits_from_state(tokens[:, 8:], ones[:, 8:], last - 8, without_all_layers(state))
    np.testing.assert_allclose(emptied, alone, rtol=1e-5, atol=1e-5)
    assert np.abs(emptied - whole).max() > 1e-4


def test_an_emptied_cache_holds_no_token():
    """Slots of zeros that count as tokens would dilute all that follows, which is no loss of memory."""
    scorer, tokens = (
        ModelScorer(*make(SoftmaxAttention, LinearAttention, vocab_size=TASK.vocab_size)),
        rows(4).tokens,
    )
    ones = np.ones_like(tokens)
    state = scorer.state_after(tokens[:, :8], ones[:, :8], scorer.init_state(4, tokens.shape[1]))
    emptied = without_layer(state, 0)
    assert (np.asarray(emptied.layers[0].position) == 0).all()
    assert (np.asarray(emptied.position) == 8).all()
    for kept, before in zip(
        jax.tree.leaves(emptied.layers[1]), jax.tree.leaves(state.layers[1]), strict=True
    ):
        np.testing.assert_array_equal(kept, before)
    rounded = quantised(state, 8)
    for name in ("position", "last_id"):
        np.testing.assert_array_equal(getattr(rounded.layers[0], name), getattr(state.layers[0], name))


def test_a_mesh_gives_the_same_and_compiles_once():
    """States of emptied layers that lie elsewhere on the devices would compile the model anew, each."""
    graphdef, params = make(LinearAttention, LinearAttention, vocab_size=TASK.vocab_size)
    one = measure(ModelScorer(graphdef, params), batch_size=100)
    mesh = jax.make_mesh((4,), ("rows",), axis_types=(AxisType.Auto,))
    spread = ModelScorer(graphdef, jax.device_put(params, NamedSharding(mesh, PartitionSpec())))
    compiled = model_scorer._logits_from_state._cache_size()
    assert json.dumps(measure(spread, batch_size=100).summary()) == json.dumps(one.summary())
    assert model_scorer._logits_from_state._cache_size() == compiled + 1


@pytest.mark.parametrize(
    "task, why",
    [
        (Parity(), "need rows of RecallAtDistance, and the data of this run are Parity"),
        (
            RecallAtDistance(pairs=8, queries_per_row=1, keys=8, values=9),
            r"a key and a value that they do not hold; this run has pairs = \(8,\), keys = 8, values = 9",
        ),
        *(
            (RecallAtDistance(**{switch: value}), "alone, as RecallAtDistance without its switches")
            for switch, value in (
                ("rebind", 0.5),
                ("query_first", True),
                ("read_twice", True),
                ("noisy", 0.3),
            )
        ),
    ],
)
def test_tasks_that_cannot_express_it_are_refused_by_name_and_left_out_by_default(task, why):
    """Interventions on rows of another layout would change the wrong tokens."""
    with pytest.raises(InputError, match=why):
        interventions.measure(Blind(np.ones(9) / 9), task, longest=999, batch_size=2, rows=2)
    said = []
    assert suites.expressible(("recall", "interventions"), task, said.append) == ("recall",)
    assert len(said) == 1


def test_rows_that_do_not_fit_are_refused():
    """The largest load that fits is taken; where none does, a sentence says what would be right."""
    assert suites.expressible(("recall", "interventions"), TASK, print) == ("recall", "interventions")
    blind = Blind(np.full(TASK.vocab_size, 1 / TASK.vocab_size))
    result = interventions.measure(blind, TASK, longest=11, batch_size=2, rows=2)
    assert (result.pairs, result.fillers) == (2, 3)
    with pytest.raises(InputError, match=r"at least 8 tokens, and rows of up to 7 .*row_length"):
        interventions.measure(PerfectMemory(TASK), TASK, longest=7, batch_size=2, rows=2)


def test_the_picture_the_table_and_the_summary(perfect):
    """Each figure is shown beside its interval and its controls, in 100 columns."""
    drawn = plots_interventions.interventions(perfect, "run, step 1")
    assert drawn.axes[0].get_title() == "does the answer follow?"
    assert plots.png(drawn).startswith(b"\x89PNG")
    table = report.rows({"interventions": perfect}, None)
    assert len(table) == 1 + len(perfect.all_effects)
    swap = next(row for row in table if "value swap: new value" in row[0])
    assert swap[1] == "+1.000"
    assert "perfect 0.000 to 1.000" in swap[3]
    scalars = perfect.scalars()
    assert scalars["eval/intervention_value_swap"] == 1
    assert len(scalars) == len(perfect.all_effects)
    assert json.loads(json.dumps(artifacts._finite(perfect.summary())))["effects"]["8_bits"]["perfect"] == 1
