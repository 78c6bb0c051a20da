"""Whether a comparison is fair: what should be equal between runs, and what of it is not."""

from collections.abc import Sequence
from typing import NamedTuple

from seqmodels.evaluation.comparison import ComparedRun

PARAMETER_TOLERANCE = 0.02
_EVALUATED = (
    ("perplexity protocol", "perplexity", "protocol"),
    ("tokens scored", "perplexity", "tokens_scored"),
    ("recall rows", "recall", "rows_hash"),
    ("repeat passages", "repeat", "passages"),
    ("n-gram contexts", "ngram_hits", "contexts"),
    ("needle prompts", "needle", "prompts_hash"),
    ("intervention rows", "interventions", "rows_hash"),
)


class Entry(NamedTuple):
    """A line of the ledger: one value a run, and whether they are as equal as they should be."""

    item: str
    values: list[str]
    fair: bool


def ledger(runs: Sequence[ComparedRun]) -> list[Entry]:
    """What should be equal for the figures to compare, and whether it is."""
    counts = [run.parameters for run in runs]
    entries = [
        Entry(
            f"parameters within {PARAMETER_TOLERANCE:.0%}",
            [f"{count:,} ({count / min(counts) - 1:+.1%})" for count in counts],
            max(counts) <= min(counts) * (1 + PARAMETER_TOLERANCE),
        ),
        _equal("tokens trained on", [f"{run.tokens:,}" for run in runs]),
        *_learning_rates(runs),
    ]
    names = dict.fromkeys(name for run in runs for name in run.settings)
    entries += [_equal(name, [run.settings.get(name, "none") for run in runs]) for name in names]
    for title, suite, key in _EVALUATED:
        if any(suite in run.suites for run in runs):
            values = [str(run.suites.get(suite, {}).get(key, "not evaluated"))[:16] for run in runs]
            entries.append(_equal(title, values))
    return entries


def verdict(entries: Sequence[Entry]) -> str:
    """One sentence on whether the figures compare."""
    differing = [entry.item for entry in entries if not entry.fair]
    if not differing:
        return "The runs are equal in all that should be equal."
    return f"The runs differ in what should be equal: {', '.join(differing)}."


def _learning_rates(runs: Sequence[ComparedRun]) -> list[Entry]:
    """Rates may differ where each is the best of its grid; then it is the grids that should be equal."""
    rates = [run.learning_rate for run in runs]
    best = [run.sweep is not None and run.sweep.best(run.learning_rate) for run in runs]
    fair = len(set(rates)) == 1 or all(best)
    if not any(run.sweep for run in runs):
        return [Entry("learning rate", [f"{rate:g}" for rate in rates], fair)]
    said = [
        f"{rate:g}" if run.sweep is None else f"{rate:g}, {'' if chosen else 'not '}the best of its grid"
        for run, rate, chosen in zip(runs, rates, best, strict=True)
    ]
    grids = [_listed(run.sweep.rates if run.sweep else ()) for run in runs]
    seeds = [_listed(run.sweep.seeds if run.sweep else ()) for run in runs]
    return [
        Entry("learning rate", said, fair),
        _equal("learning-rate grid", grids),
        _equal("seeds of the grid", seeds),
    ]


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers) or "none"


def _equal(item: str, values: list[str]) -> Entry:
    return Entry(item, values, len(set(values)) == 1)
