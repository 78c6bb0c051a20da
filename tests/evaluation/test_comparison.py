"""What a comparison says of runs whose figures are known: pairing, the shared figures, the cache."""

import json
import math

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from seqmodels.evaluation import comparison, plots_pareto
from seqmodels.evaluation.answers import ANSWER_KINDS
from seqmodels.evaluation.comparison import ComparedRun, labels
from seqmodels.evaluation.comparison_paired import differences
from seqmodels.evaluation.comparison_tables import figures_table
from seqmodels.evaluation.json_numbers import encoded
from seqmodels.evaluation.statistics import Estimate, area_over_log2, paired_difference
from seqmodels.training.run_directory import RunDirectory

AT = np.array([1, 2, 8, 64])
ROWS = 200


def estimate(value):
    return {"value": value, "low": value, "high": value}


def compared(label, suites, folder=None, **facts):
    known = {
        "label": label, "step": 1, "tokens": 1, "mixers": "1 X", "parameters": 1, "flops_per_token": 1.0,
        "state_bytes": 64, "bytes_per_element": 4, "cache_bytes": 16, "tokens_per_second": None, "lines": [],
        "suites": suites, "folder": folder, "learning_rate": 1e-3, "settings": {}, "sweep": None,
    }  # fmt: skip
    return ComparedRun(**known | facts)


def recall_run(folder, label, right, *, queries, trained, bits=None, rows_hash="same", **facts):
    """A run with one curve: `right` [rows, points, queries], in the order of the evaluation's own table."""
    points = [
        {
            "at": int(at),
            "accuracy": estimate(0.0),
            "chance_of_value": 0.1,
            "chance_of_row": 0.5,
            "trained": bool(had),
        }
        for at, had in zip(AT, trained, strict=True)
    ]
    row, _, query = (index.transpose(1, 0, 2).ravel() for index in np.indices(right.shape))
    kinds = np.where(right.transpose(1, 0, 2).ravel(), 0, 3)
    table = {
        "part": ["delay"] * len(row),
        "row": row,
        "query_index": query,
        "kind": pyarrow.DictionaryArray.from_arrays(kinds.astype("int8"), list(ANSWER_KINDS)),
        "nll_bits": np.zeros(len(row)) if bits is None else bits.transpose(1, 0, 2).ravel(),
    }
    other = {name: values[:3] for name, values in table.items()} | {"part": ["interference"] * 3}
    (folder / label).mkdir()
    both = pyarrow.concat_tables([pyarrow.table(other), pyarrow.table(table)])
    pyarrow.parquet.write_table(both, folder / label / "recall.parquet")
    counted = "first query of a row" if queries == "first" else "all queries"
    axis = "distance from value to query (tokens)"
    curve = {"axis": axis, "counted": counted, "area": estimate(0.5), "points": points}
    suites = {"recall": {"rows_hash": rows_hash, "by_delay": curve}}
    return compared(label, suites, folder / label, **facts)


@pytest.mark.parametrize("queries", ["first", "all"])
def test_the_paired_difference_is_that_of_the_areas(tmp_path, queries):
    """Read from the tables of all queries, over the points that both were trained on."""
    generator = np.random.default_rng(0)
    shape = (ROWS, len(AT), 3)
    one, two = (generator.random(shape) < np.array([0.9, 0.7, p, 0.1])[:, None] for p in (0.6, 0.3))
    bits = generator.random(shape)
    settings = {"queries": queries, "trained": [True, True, True, False]}
    first = recall_run(tmp_path, "first", one, bits=bits, **settings)
    second = recall_run(tmp_path, "second", two, bits=bits + 0.25, **settings)
    (found,) = differences([first, second])
    counted = slice(0, 1) if queries == "first" else slice(None)
    one, two = (area_over_log2(AT[:3], right[:, :3, counted].mean(axis=(0, 2))) for right in (one, two))
    area = found.figures["recall area, delay"]
    assert area.value == pytest.approx(two - one, abs=1e-12)
    assert area.low < area.value < area.high < 0
    np.testing.assert_allclose(found.figures["bits of the answer, delay"], 0.25, rtol=1e-6)


def test_pairing_tells_apart_what_separate_intervals_do_not(tmp_path):
    """Two models that share their hard rows: the difference is small beside the spread of the rows."""
    generator = np.random.default_rng(1)
    hard = generator.random((ROWS, 1, 1)) < 0.5
    one = np.broadcast_to(~hard, (ROWS, len(AT), 1)).copy()
    two = one & (generator.random(one.shape) < 0.9)
    settings = {"queries": "first", "trained": [True] * 4}
    runs = [recall_run(tmp_path, "a", one, **settings), recall_run(tmp_path, "b", two, **settings)]
    area = differences(runs)[0].figures["recall area, delay"]
    shuffled = paired_difference(*(of.mean(axis=(1, 2)) for of in (two, one[::-1])), np.ones(ROWS), bound=1.0)
    assert area.high < 0
    assert area.high - area.low < (shuffled.high - shuffled.low) / 2


def test_other_rows_are_not_paired(tmp_path):
    """Differences of unlike rows would be reported with the confidence of like ones."""
    right = np.ones((ROWS, len(AT), 1), bool)
    settings = {"queries": "first", "trained": [True] * 4}
    first = recall_run(tmp_path, "first", right, **settings)
    other = recall_run(tmp_path, "other", right, rows_hash="other", **settings)
    lost = recall_run(tmp_path, "lost", right, **settings)
    (lost.folder / "recall.parquet").unlink()
    apart = recall_run(tmp_path, "apart", right, queries="first", trained=[False] * 4)
    found = differences([first, other, lost, apart, compared("text", {})])
    assert [each.obstacle for each in found] == [
        "not paired: other rows",
        "not paired: lost has no recall.parquet",
        "no trained points in common",
        "no recall",
    ]
    assert not any(each.figures for each in found)
    assert differences([compared("text", {}), first]) == []


def test_figures_of_other_suites_are_of_one_length():
    """Runs of different training lengths share the longest that both were trained on; other lengths compare
    unlike things.
    """

    def run(label, length, lengths):
        needle = [{"length": each, "first": estimate(each / 1000)} for each in lengths]
        hits = [{"first": n, "last": 2 * n - 1, "gain": estimate(n / 100)} for n in (16, 32, 64, 128)]
        suites = {
            "needle": {"training_length": length, "by_length": needle},
            "ngram_hits": {"training_length": length, "by_distance": hits},
        }
        return compared(label, suites)

    header, one, two, none = figures_table(
        [run("a", 256, [128, 256, 512]), run("b", 128, [64, 128, 256]), compared("c", {})]
    )
    assert header[-2:] == ["n-gram gain at 64 (bits)", "needle first of 16 at 128"]
    assert one[-2:] == two[-2:] == ["0.640 (0.640 to 0.640)", "0.128 (0.128 to 0.128)"]
    assert none[-2:] == ["-", "-"]


def test_an_interval_that_is_not_known_is_said_so():
    """Of one document eval.py writes null: inf to inf would look like a figure."""
    alone = {"perplexity": {"bits_per_byte": {"value": 1.7, "low": None, "high": None}}}
    header, line = figures_table([compared("alone", alone)])
    assert dict(zip(header, line, strict=True))["bits/byte"] == "1.700 (interval not known)"


def test_a_bound_beyond_what_was_measured_is_not_one_that_is_not_known():
    """A horizon whose upper bound is infinite, one that is infinite itself, and one without an interval."""
    points = [{"at": at} for at in (1, 2, 4, 8)]

    def shown(*horizon):
        written = json.loads(json.dumps(encoded(Estimate(*horizon)._asdict()), allow_nan=False))
        run = compared("run", {"recall": {"by_delay": {"horizon50": written, "points": points}}})
        header, line = figures_table([run])
        return dict(zip(header, line, strict=True))["horizon50, delay"]

    assert shown(3.0, 2.0, math.inf) == "3.0 (2.0 to > 8)"
    assert shown(math.inf, 6.0, math.inf) == "> 8 (6.0 to > 8)"
    assert shown(3.0, math.nan, math.nan) == "3.0 (interval not known)"


def test_the_cache_beside_the_runs(tmp_path):
    """A cache with room for the pair and all behind it recalls it, and no pair further back."""
    right = np.ones((ROWS, len(AT), 1), bool)
    run = recall_run(tmp_path, "run", right, queries="first", trained=[True, True, True, False])
    (axes,) = plots_pareto.pareto([run]).axes
    (cache,) = (line for line in axes.lines if "KV cache" in line.get_label())
    np.testing.assert_array_equal(cache.get_xdata(), 16 * np.array([3, 4, 10]))
    np.testing.assert_allclose(cache.get_ydata(), [1 / 6, 4 / 6, 1])


def test_names_tell_runs_apart(tmp_path):
    """With the folders that differ alone: full paths fill every column."""
    for path in ("a/run", "b/run", "b/other"):
        (tmp_path / path).mkdir(parents=True)
        (tmp_path / path / "config.gin").write_text("")
    runs = [RunDirectory(tmp_path / path) for path in ("a/run", "b/run", "b/other")]
    assert labels(runs) == ["a/run", "b/run", "other"]
    assert labels(runs[1:]) == ["run", "other"]


ATTENTION = "SoftmaxAttention.position_encoding = 'rope'\nSoftmaxAttention.conv_width = {}\n"


@pytest.mark.parametrize(
    "used, conv_width, position_scheme",
    [
        ("Mamba.conv_width = 4\nSoftmaxAttention.conv_width = 4\n", "4", "none"),
        (
            f"Mamba.conv_width = 4\n{ATTENTION.format(None)}",
            "Mamba 4, SoftmaxAttention none",
            "Mamba none, SoftmaxAttention rope",
        ),
        (ATTENTION.format(None), "none", "rope"),
        ("a/SoftmaxAttention.conv_width = 8\n", "8", "none"),
        (
            "a/b/SoftmaxAttention.conv_width = 8\nSoftmaxAttention.conv_width = 4\n",
            "SoftmaxAttention 4, a/b/SoftmaxAttention 8",
            "none",
        ),
        (
            f"LanguageModel.positions = 'learned'\n{ATTENTION.format(4)}",
            "4",
            "learned at the input, mixers rope",
        ),
        ("S4D.state_dim = 64\nMamba.conv_width = 4\n", "Mamba 4, S4D none", "none"),
    ],
)
def test_settings_are_told_apart_by_component_and_scope(used, conv_width, position_scheme):
    """A convolution in front of attention in one run alone makes that run another architecture."""
    mixers = "Mamba|SoftmaxAttention|S4D"
    assert comparison._operative(used, mixers, "conv_width") == conv_width
    assert comparison._position_scheme(used, mixers) == position_scheme
