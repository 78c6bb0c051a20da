"""The memory of tiny models whose decays are known, and of rows whose kinds are."""

import json
from functools import partial
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from rich.console import Console

from seqmodels.data.tasks.recall_at_distance import RecallAtDistance
from seqmodels.evaluation import artifacts, memory, memory_rows, report, suites
from seqmodels.evaluation.memory_sweep import sweep
from seqmodels.evaluation.model_scorer import ModelScorer
from seqmodels.evaluation.recall import Recall
from seqmodels.evaluation.receptive_field import Behaviour
from seqmodels.evaluation.statistics import Estimate
from seqmodels.language_model import LanguageModel, build
from seqmodels.mixers import (
    LRU,
    GatedDeltaNet,
    LightningAttention,
    LinearAttention,
    Mamba,
    Retention,
    SoftmaxAttention,
)
from tests.evaluation.oracles import Ids, Store

VOCABULARY = 12
TEXT = Store([np.random.default_rng(0).integers(0, VOCABULARY - 1, 3000)])
DATA = SimpleNamespace(kind="text", validation=TEXT, tokenizer=Ids(VOCABULARY - 1))
TASK = RecallAtDistance(pairs=2, fillers=(0, 3), queries_per_row=3, keys=8, values=8, filler_tokens=4)


def made(*pattern, vocab_size=VOCABULARY, change=lambda params: params, **settings):
    """A scorer of a tiny model with larger weights than training starts from."""
    graphdef, params, _ = build(
        partial(LanguageModel, width=32, depth=len(pattern), mixers=pattern, **settings), vocab_size
    )
    return ModelScorer(graphdef, change(jax.tree.map(lambda leaf: leaf * np.float32(3), params)))


def measured(scorer, data=DATA, **settings):
    settings = {"training_length": 32, "longest": 64, "batch_size": 5, "rows": 12, **settings}
    return memory.measure(scorer, data, **settings)


def one_decay(params):
    """Every eigenvalue of every LRU is 0.95."""
    mixer = params["layers"]["blocks"][0]["mixer"]
    mixer["nu_log"] = np.full_like(mixer["nu_log"], np.log(-np.log(0.95)))
    mixer["theta_log"] = np.full_like(mixer["theta_log"], -30)
    return params


def test_gates_survival_and_impulse_response_agree_on_one_decay():
    """Three ways to the same 13.5 tokens: a response to the wrong token, a curve of squares in place of one
    of lengths, or a lag off by one would each differ.
    """
    result = measured(made(partial(LRU), change=one_decay, feed_forward="none"))
    known = np.log(0.5) / np.log(0.95)
    (layer,) = result.layers
    np.testing.assert_allclose(layer.half_lives["gate"].tokens(), known, rtol=1e-4)
    assert layer.survival.half_life.value == pytest.approx(known, rel=1e-4)
    assert layer.response.half_life.value == pytest.approx(known, rel=0.01)
    # The norm before the layer scales each token by its own length.
    assert result.response.half_life.value == pytest.approx(known, rel=0.1)
    assert result.scalars()["eval/memory_half_life"] == pytest.approx(known, rel=1e-4)
    assert result.scalars()["eval/memory_beyond_training"] == 0


@pytest.mark.slow
def test_impulse_response_of_a_matrix_memory_decays_as_its_gate():
    """Read through random queries the response is noisy, and must still halve in 21.8 tokens."""
    scorer = made(partial(Retention, heads=1), vocab_size=64, feed_forward="none")
    text = Store([np.random.default_rng(0).integers(0, 63, 30_000)])
    data = SimpleNamespace(kind="text", validation=text, tokenizer=Ids(63))
    (layer,) = measured(scorer, data, rows=256, longest=96, batch_size=64).layers
    known = np.log(0.5) / np.log(1 - 2**-5)
    assert layer.half_lives["gate"].median().value == pytest.approx(known, rel=1e-4)
    felt = layer.response.half_life
    assert felt.low <= known <= felt.high
    assert felt.value == pytest.approx(known, rel=0.15)


def test_whatever_the_batch():
    """A projection drawn for a place in the batch instead of a row would change every figure with it."""
    scorer = made(Retention)
    rows = memory_rows.of_text(TEXT, DATA.tokenizer, rows=7, longest=24)
    one, other = (sweep(scorer.model, rows, size) for size in (2, 7))
    for got, wanted in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_on_a_mesh_as_on_one_device():
    """Parameters that lie on several devices, as after training on them."""
    scorer = made(LinearAttention)
    mesh = jax.make_mesh((4,), ("rows",), axis_types=(AxisType.Auto,))
    spread = jax.device_put(scorer._params, NamedSharding(mesh, PartitionSpec()))
    one, four = (measured(each, rows=5) for each in (scorer, ModelScorer(scorer._graphdef, spread)))
    np.testing.assert_allclose(one.response.norms, four.response.norms, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(one.replacement.divergence, four.replacement.divergence, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_scanned_layers_are_measured_one_by_one():
    """Stacked parameters belong to several layers, and decays depend on which it is."""
    (one, other) = (
        measured(made(LightningAttention, LightningAttention, layer_scan=scan, remat=scan), rows=6)
        for scan in (False, True)
    )
    for plain, scanned in zip(one.layers, other.layers, strict=True):
        np.testing.assert_allclose(
            plain.half_lives["gate"].mean_log(), scanned.half_lives["gate"].mean_log(), rtol=1e-5
        )
        np.testing.assert_allclose(plain.response.norms, scanned.response.norms, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_nothing_is_felt_of_later_tokens():
    """Rows end at their last query: what stands behind it is padding."""
    rows = memory_rows.of_task(TASK, rows=5, split="test", training_length=16, longest=32)
    found = sweep(made(LinearAttention, vocab_size=TASK.vocab_size).model, rows, 5)
    behind = np.arange(rows.tokens.shape[1]) > rows.last[:, None]
    assert (found.response[behind] == 0).all() and (found.response[~behind] > 0).all()


def test_kinds_are_those_of_the_task():
    """As many fillers, keys and values as the row has; queries are keys, padding is of no kind."""
    rows = memory_rows.of_task(TASK, rows=9, split="test", training_length=16, longest=32)
    assert rows.kinds == ("filler", "key", "value")
    fillers = rows.about["fillers"]
    counts = np.stack([(rows.kind == kind).sum(axis=1) for kind in range(3)], axis=1)
    np.testing.assert_array_equal(counts, np.tile([fillers, 2 + 3, 2], (9, 1)))
    assert 2 * fillers > rows.lags  # at the far end of what fits, most is delay
    np.testing.assert_array_equal(rows.kind == -1, rows.segment_ids == 0)
    made_rows = TASK.rows("test", 0, 9, **{k: rows.about[k] for k in ("interference", "fillers", "pairs")})
    np.testing.assert_array_equal(rows.target, made_rows.metadata["answer"][:, -1])


@pytest.mark.slow
def test_text_windows():
    """They must lie in the text, behind an end-of-text token; too short a text has none."""
    rows = memory_rows.of_text(TEXT, DATA.tokenizer, rows=5, longest=24)
    assert rows.tokens.shape == (5, 24) and rows.lags == 24
    assert (rows.tokens[:, 0] == VOCABULARY - 1).all()
    np.testing.assert_array_equal(rows.tokens[0, 1:], TEXT.tokens[:23])
    assert rows.target[0] == TEXT.tokens[23]
    assert memory_rows.of_text(Store([np.zeros(10, int)]), DATA.tokenizer, rows=5, longest=24) is None


@pytest.mark.slow
def test_attention_reports_its_cache():
    """A half-life of a cache would be a figure of nothing."""
    result = measured(made(SoftmaxAttention, Mamba, dtype="bfloat16"))
    attention, mamba = result.layers
    assert attention.half_lives == {} and attention.survival is None
    assert attention.summary(32)["decay"] == "no decay: cache"
    assert attention.state.grows and not mamba.state.grows
    assert len(result.units()) == 64 * 16
    alone = measured(made(SoftmaxAttention))
    assert "eval/memory_half_life" not in alone.scalars() and len(alone.scalars()) >= 2


@pytest.mark.slow
def test_delta_rules_report_both_directions():
    """Along the written key a token forgets more than along others."""
    (layer,) = measured(made(GatedDeltaNet)).layers
    assert set(layer.half_lives) == {"gate", "written", "random"}
    written, gate, random = (layer.half_lives[name].tokens() for name in ("written", "gate", "random"))
    assert (written < random).all() and (random <= gate * 1.0001).all()


def test_what_is_left_behind(tmp_path):
    """JSON for every reader, rows of the table within its width, and a picture, with and without recall."""
    horizon = Behaviour(Estimate(np.inf, 20.0, np.inf), 31.0, "accuracy of recall by delay")
    scorer = made(GatedDeltaNet, LinearAttention, SoftmaxAttention, vocab_size=TASK.vocab_size)
    for behaviour in (horizon, None):
        result = measured(scorer, TASK, behaviour=behaviour)
        json.dumps(result.summary())
        artifacts.write_tables(tmp_path, {"memory": result})
        document = json.loads((tmp_path / "memory.json").read_text(), parse_constant=pytest.fail)
        assert len(document["half_lives_of_units"][0]["random"]["filler"]) == 1
        assert document["half_lives_of_units"][1]["gate"]["all"] == ["inf"]
        assert ("behaviour" in document["receptive_field"]) == (behaviour is not None)
        result.halves["replacement"] = Estimate(np.inf, np.inf, np.inf)
        table = report.rows({"memory": result}, None)
        (about,) = (row[-1] for row in table if row[0] == "  reach by replacement")
        assert about.endswith(f"half beyond > {result.longest['replacement']:g}")
        assert max(len(figure) for figure, *_ in table) <= 26
        console = Console(width=report.WIDTH)
        assert all(console.measure(value).maximum <= 24 for row in table for value in row[1:3])
        picture = artifacts.pictures({"memory": result}, "tiny")["memory"]
        assert picture.startswith(b"\x89PNG")


def test_a_sweep_that_counts_no_tokens_is_no_reach():
    """How many pairs are remembered is no distance."""
    horizon = Estimate(9.0, 8.0, 10.0)

    def curve(axis):
        sweep = SimpleNamespace(axis=axis)
        return SimpleNamespace(sweep=sweep, horizon50=horizon, at=np.array([1, 64]))

    def found(curves):
        return memory.behaviour_of({"recall": Recall(curves, *[None] * 7)})

    load, delay = curve("pairs in the row"), curve("distance from value to query (tokens)")
    assert found({"load": load}) is None
    assert found({"load": load, "delay": delay}) == (horizon, 64, "accuracy of recall by delay")


def test_recall_stands_beside_memory_in_whatever_order_they_are_asked_for():
    """Memory measured first would find no behaviour to compare itself with."""
    scorer = made(LinearAttention, vocab_size=TASK.vocab_size)
    scope = suites.DURING_TRAINING._replace(rows=8, passages=4)
    sizes = {"batch_size": 4, "row_length": 16, "training_length": 16}
    results = suites.measure(("memory", "recall"), scorer, TASK, scope, **sizes)
    assert results["memory"].behaviour.probe == "accuracy of recall by delay"
    assert set(results["memory"].fields) == {"gradient", "replacement", "behaviour"}
    results = suites.measure(
        ("memory", "repeat"), made(LinearAttention), DATA, scope, **{**sizes, "row_length": 64}
    )
    assert results["memory"].behaviour.probe == "gain of the repeat probe"
    assert suites.measure(("memory",), scorer, TASK, scope, **sizes)["memory"].behaviour is None
