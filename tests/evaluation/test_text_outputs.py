"""What the probes in natural text leave: lines that fit, JSON, and pictures that can be drawn."""

import json

import pytest

from seqmodels.evaluation import plots, plots_text, report_text
from tests.evaluation import test_needle, test_ngram_hits


@pytest.fixture(scope="module")
def results():
    return {
        "ngram_hits": test_ngram_hits.measure(test_ngram_hits.PairCopier(12)),
        "needle": test_needle.measure(test_needle.KeyCopier(63)),
    }


@pytest.mark.parametrize(
    "name, lines, figure", [("ngram_hits", 5, "n-gram gain at 2-3"), ("needle", 3, "needle first in 64")]
)
def test_outputs(results, name, lines, figure):
    """A figure without its interval, control and count cannot be judged; a column too wide is cut off."""
    result = results[name]
    rows = getattr(report_text, name)(result)
    assert len(rows) == lines and rows[0][0] == figure
    assert all(" to " in interval and "n " in control for _, _, interval, control in rows)
    assert all(len(figure) <= 23 and len(control) <= 50 for figure, _, _, control in rows)
    assert json.loads(json.dumps(result.summary(), allow_nan=False))
    assert len(result.scalars()) == lines
    assert plots.png(getattr(plots_text, name)(result, "title")).startswith(b"\x89PNG")
