"""How far an evaluation is: true to the batches that are made, and never in the way of a figure."""

import io
import re
import sys

import pytest

from seqmodels.evaluation import progress
from seqmodels.evaluation.scorer import in_flight


class Terminal(io.StringIO):
    """A terminal of 100 columns, to rich."""

    def isatty(self):
        return True


@pytest.fixture
def output(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")

    def to(file):
        monkeypatch.setattr(sys, "stdout", file)
        return file

    return to


@pytest.fixture
def clock(monkeypatch):
    """Seconds, which pass as a test lets them."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def passes(clock, seconds, count):
    """Results that take their time, the first ten times as long."""
    for made in range(count):
        clock[0] += seconds * (10 if made == 0 else 1)
        yield made, None


def test_plain_lines_are_few_and_say_what_is_left(output, clock):
    """A log of a cluster must not fill; compiling must not count for every batch."""
    plain = output(io.StringIO())
    with progress.showing(2):
        progress.begins("perplexity")
        list(in_flight(passes(clock, 10.0, 21), 165, 8))
        progress.begins("needle")
        list(in_flight(passes(clock, 1.0, 3), 3, 1))
    lines = plain.getvalue().splitlines()
    assert lines[0] == "perplexity, 1 of 2  pass 1  batch 1/21  time left not known yet"
    assert lines[1] == "perplexity, 1 of 2  pass 1  batch 5/21  0:02:40 left of the pass"
    assert len(lines) == 6


def test_a_quick_evaluation_says_nothing_where_there_is_no_terminal(output):
    """Its table is there before anyone asks."""
    plain = output(io.StringIO())
    with progress.showing(1):
        progress.begins("perplexity")
        assert list(in_flight(((n, n) for n in range(3)), 3, 1)) == [(0, 0), (1, 1), (2, 2)]
    assert plain.getvalue() == ""


def test_the_live_line_goes_when_the_evaluation_ends_or_fails(output):
    """What is printed behind a line that still lives is torn by it; a hidden cursor stays hidden."""
    terminal = output(Terminal())
    with pytest.raises(ValueError), progress.showing(3):
        progress.begins("perplexity")
        for made, _ in in_flight(((n, n) for n in range(5)), 5, 1):
            if made == 3:
                raise ValueError
    shown = terminal.getvalue()
    assert "perplexity, 1 of 3  pass 1  batch 4/5" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
    list(in_flight(iter([(0, 0)]), 1, 1))
    assert terminal.getvalue() == shown


def test_nothing_is_shown_where_nobody_asked(output):
    """Training evaluates too, and has a line of its own."""
    terminal = output(Terminal())
    progress.begins("perplexity")
    list(in_flight(iter([(0, 0)]), 1, 1))
    assert terminal.getvalue() == ""
