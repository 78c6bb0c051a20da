"""scripts/benchmark.py: who is timed when, and what is said of the figures."""

import dataclasses
import importlib
import pathlib
import subprocess
import sys

import pytest
from flax import nnx

from seqmodels.mixers import MIXERS

SCRIPTS = pathlib.Path(__file__).parents[1] / "scripts"


@pytest.fixture
def part(monkeypatch):
    """Imports a module of scripts/benchmarks."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return lambda name: importlib.import_module(f"benchmarks.{name}")


@pytest.fixture
def race(part, monkeypatch):
    """Contenders whose rounds take the given seconds, by a clock that moves only while they run."""
    comparison = part("comparison")
    now, turns = [0.0], []
    monkeypatch.setattr(comparison.time, "perf_counter", lambda: now[0])

    def contender(name, durations, memory=None):
        remaining = iter(durations)

        def run():
            turns.append(name)
            now[0] += next(remaining)

        return comparison.Contender(name, run, memory)

    return comparison, contender, turns


def test_contenders_take_turns_and_the_first_round_is_not_counted(race):
    """Wrong here: a machine that slows down is blamed on whoever ran last, or a warm-up
    is part of the median."""
    comparison, contender, turns = race
    contenders = contender("a", [100, 1, 2, 9]), contender("b", [100, 4, 4, 5])
    assert comparison.seconds(contenders, rounds=3) == {"a": 2, "b": 4}
    assert turns == ["a", "b"] * 4


def test_every_target_names_both_figures_the_ratio_and_the_verdict(race):
    """Wrong here: a missed target reads like a reached one, or is judged against a
    contender that is not the best."""
    comparison, contender, _ = race
    table = comparison.Comparison(
        "title",
        (
            contender("fast", [9, 0.1], 2_000_000),
            contender("slow", [9, 0.6], 6_000_000),
            contender("slower", [9, 0.8]),
        ),
        (
            comparison.Target("fast", ("slow", "slower"), 5),
            comparison.Target("fast", ("slow",), 8, "memory"),
            comparison.Target("slower", ("slow",), None),
        ),
    )
    lines, verdicts = comparison.report(table, rounds=1)
    assert verdicts == [True, False]
    time, memory, free = (line.strip() for line in lines[-3:])
    assert time == "time: fast 100.0 ms against slow 600.0 ms: 6.00 times less, target 5: reached"
    assert memory == "memory: fast 2.0 MB against slow 6.0 MB: 3.00 times less, target 8: MISSED"
    assert free.endswith("0.75 times less")


@pytest.mark.slow
def test_the_ops_run_forward_and_backward(part):
    """Wrong here: the script breaks the day an op's signature changes, and nobody sees it
    until it is needed."""
    ops, comparison = part("ops"), part("comparison")
    lines, verdicts = comparison.report(ops.attention(32), rounds=1)
    assert len(verdicts) == 2 and all("MB" in line for line in lines[1:4])
    for title in ("delta rule, decay a key channel and token", "dplr"):
        lines, verdicts = comparison.report(ops.corrected(title, 32, factor=1), rounds=1)
        assert len(verdicts) == 1 and lines[0].startswith(title)


def test_rates_and_limits_are_judged_too(race):
    """Wrong here: of two rates the lower one wins, or a limit in seconds is compared with
    the other contenders instead of the clock."""
    comparison, contender, _ = race
    step, product = contender("step", [9, 0.5]), contender("product", [9, 0.1])
    table = comparison.Comparison(
        "title",
        (
            dataclasses.replace(step, work=(40, "FLOP")),
            dataclasses.replace(product, work=(10, "FLOP")),
        ),
        (comparison.Target("step", ("product",), 0.9, "rate"),),
        (comparison.Limit("step", 0.6), comparison.Limit("product", 0.05)),
    )
    lines, verdicts = comparison.report(table, rounds=1)
    assert verdicts == [False, True, False]
    assert lines[1].split() == ["step", "500.0", "ms", "80.0", "FLOP/s"]
    assert lines[-3].strip() == "rate: step 80.0 against product 100.0: 0.80 times it, target 0.9: MISSED"


def test_the_step_is_timed(part):
    """Wrong here: the script breaks the day the training step's signature changes, and
    nobody sees it until it is needed."""
    step, comparison = part("step"), part("comparison")
    lines, verdicts = comparison.report(step.tiny(width=8, depth=1, rows=1, length=8), rounds=1)
    assert len(verdicts) == 1 and lines[1].endswith("tokens/s")


def test_decoding_is_timed(part, monkeypatch):
    """Wrong here: the script breaks the day a mixer's state changes, and nobody sees it
    until it is needed."""
    decode, comparison = part("decode"), part("comparison")
    monkeypatch.setattr(decode, "LONG", 160)
    mixer = MIXERS["SoftmaxAttention"](decode.WIDTH, rngs=nnx.Rngs(0))
    lines, verdicts = comparison.report(decode.decoded("SoftmaxAttention", mixer), rounds=1)
    assert len(verdicts) == 1 and all(line.endswith("tokens/s") for line in lines[1:4])


@pytest.mark.slow
def test_evaluation_and_rows_are_timed(part, monkeypatch):
    """Wrong here: the script breaks the day a scorer or a task changes, and nobody sees it
    until it is needed."""
    data, comparison = part("data"), part("comparison")
    monkeypatch.setattr(data, "TOKENS", 5_000)
    lines, verdicts = comparison.report(data.evaluation(width=8, depth=1), rounds=1)
    assert len(verdicts) == 1 and all(line.endswith("tokens/s") for line in lines[1:3])


@pytest.mark.slow
def test_a_run_written_down_is_timed(part):
    """Wrong here: the script breaks the day the loop's or the checkpoints' signature changes, and
    nobody sees it until it is needed."""
    record, comparison = part("record"), part("comparison")
    config = SCRIPTS.parent / "configs" / "recall" / "transformer.gin"
    kinds = {"nothing": (2, False), "all": (1, True)}
    flags = ("LanguageModel.width=32", "LanguageModel.depth=1", "train.batch_size=8")
    with record.written_down(config, flags, 2, kinds, target=0.5) as table:
        lines, verdicts = comparison.report(table, rounds=1)
    assert len(verdicts) == 1 and all(line.endswith("tokens/s") for line in lines[1:3])


def test_an_unknown_part_is_refused():
    """Wrong here: a typing error is answered by minutes of some other benchmark."""
    command = [sys.executable, SCRIPTS / "benchmark.py", "op"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 2 and "there is no part 'op'; the parts are ops" in run.stderr
