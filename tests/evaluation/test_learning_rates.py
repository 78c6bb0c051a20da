"""What a grid comes to: the best rate, its window, how many seeds solve; and the picture of it."""

import math

import pytest

from seqmodels.evaluation import plots_sweep
from seqmodels.evaluation.learning_rates import CRITERIA, curve

RECALL, TEXT = CRITERIA["recall"], CRITERIA["text"]


def grid(criterion, **rates):
    """A curve of rates 1e-4, 1e-3, ... with the given values of their seeds."""
    values = [(10.0 ** -int(name[1:]), value) for name, seeds in rates.items() for value in seeds]
    return curve("mine", criterion, values)


def test_success_is_counted_and_never_averaged():
    """Two seeds of three that solve the task have a mean of 0.7, which no seed reached."""
    drawn = grid(RECALL, e3=[1.0, 0.96, 0.1])
    (rate,) = drawn.rates
    assert (rate.median, min(rate.values), max(rate.values)) == (0.96, 0.1, 1.0)
    assert rate.solved == 2
    assert (rate.solving.low, rate.solving.high) == pytest.approx((0.2077, 0.9385), abs=1e-4)


def test_a_failed_seed_counts_as_the_worst():
    """Left out, a rate at which two of three seeds diverge would look as good as its luckiest seed."""
    recall = grid(RECALL, e3=[0.9, None, None], e4=[0.5, 0.5, 0.5])
    assert [rate.median for rate in recall.rates] == [0.5, 0.0] and recall.best.learning_rate == 1e-4
    assert recall.rates[1].failed == 2
    text = grid(TEXT, e3=[2.0, math.nan, None], e4=[3.0, 3.0, 3.0])
    assert [rate.median for rate in text.rates] == [3.0, math.inf] and text.best.learning_rate == 1e-4
    assert text.rates[0].solved is None


def test_the_window_is_what_stands_side_by_side_with_the_best():
    """A good rate beyond a bad one is an accident of the grid, and no width."""
    drawn = grid(RECALL, e5=[0.97], e4=[0.3], e3=[0.96], e2=[1.0], e1=[0.2])
    assert drawn.best.learning_rate == 1e-2
    window = drawn.window
    assert (window.low, window.high) == (1e-3, 1e-2)
    assert window.factor == pytest.approx(10) and window.octaves == pytest.approx(math.log2(10))
    assert not window.open_below and not window.open_above


def test_a_window_that_reaches_the_end_of_the_grid_may_go_on():
    window = grid(TEXT, e3=[2.01], e2=[2.0], e1=[2.03]).window
    assert (window.low, window.open_below, window.open_above) == (1e-3, True, False)


def test_of_equal_medians_the_best_has_the_better_worst_seed_and_then_the_lower_rate():
    assert grid(RECALL, e3=[1.0, 1.0, 0.2], e2=[1.0, 1.0, 0.9]).best.learning_rate == 1e-2
    assert grid(RECALL, e3=[1.0], e2=[1.0]).best.learning_rate == 1e-3
    assert grid(TEXT, e3=[2.0], e2=[2.0]).best.learning_rate == 1e-3


def test_every_config_is_drawn_and_failures_have_a_place():
    """Infinity on an axis is an empty picture, or an error in the middle of the night."""
    drawn = plots_sweep.learning_rates(
        [
            curve("one", TEXT, [(1e-3, 2.0), (1e-2, None)]),
            curve("two", TEXT, [(1e-3, 2.5), (1e-2, 2.4)]),
        ],
        "title",
    )
    (axes,) = drawn.axes
    assert axes.get_xscale() == "log" and axes.get_ylabel() == "bits per byte on validation"
    drawn.draw_without_rendering()
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "one, one seed (1 failed)",
        "two, one seed",
        "best rate, by the median",
    ]
    ticks = [text.get_text() for text in axes.get_xticklabels()]
    assert ticks == ["0.001", "0.01"]
    low, high = axes.get_ylim()
    for line in axes.lines:
        assert all(low <= y <= high for y in line.get_ydata())
