"""Interventions: a perfect memory does what each of them asks, and what ignores the context does not."""

import json

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from seqmodels.data.tasks.curriculum import Curriculum
from seqmodels.data.tasks.parity import Parity
from seqmodels.data.tasks.recall_at_distance import RecallAtDistance
from seqmodels.errors import InputError
from seqmodels.evaluation import (
    interventions,
    model_scorer,
    plots,
    plots_interventions,
    report,
    suites,
)
from seqmodels.evaluation.json_numbers import encoded
from seqmodels.evaluation.model_scorer import ModelScorer
from seqmodels.mixers import LinearAttention
from tests.evaluation.intervention_oracles import TASK, Blind, PerfectMemory
from tests.evaluation.test_model_scorer import make

ROWS = 200


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


def test_batches_and_repetitions_agree(perfect):
    """A figure that depends on the batch, or on when it is made, cannot be compared."""
    scorer = ModelScorer(*make(LinearAttention, vocab_size=TASK.vocab_size))
    one, two = (measure(scorer, batch_size=size) for size in (64, 23))
    assert json.dumps(one.summary()) == json.dumps(two.summary())
    assert perfect.rows_hash == one.rows_hash


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


def test_a_curriculum_is_measured_as_its_last_task():
    """Its rows are of that task, with all that they can be asked."""
    easy = RecallAtDistance(pairs=1, queries_per_row=3, keys=10, values=32, filler_tokens=8)
    stages = Curriculum(tasks=(easy, TASK), rows=9)
    nested = Curriculum(tasks=(easy, stages), rows=9)
    assert suites.expressible(("interventions",), nested, print) == ("interventions",)
    sizes = {"longest": 64, "batch_size": 8, "rows": 8}
    alone = interventions.measure(PerfectMemory(TASK), TASK, **sizes)
    assert interventions.measure(PerfectMemory(TASK), stages, **sizes).summary() == alone.summary()


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
    assert json.loads(json.dumps(encoded(perfect.summary())))["effects"]["8_bits"]["perfect"] == 1
