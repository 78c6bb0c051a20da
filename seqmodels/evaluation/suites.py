"""The suites: which evaluators run on which data, and the small settings they run with during training."""

from seqmodels.errors import InputError
from seqmodels.evaluation import perplexity, recall, repeat

DEFAULTS = {"text": ("perplexity", "repeat"), "recall": ("recall",)}
SUITES = {"perplexity": "text", "strided": "text", "stateful": "text", "repeat": "text", "recall": "recall"}
"""Every suite, and the kind of data it needs."""

DURING_TRAINING = {
    "perplexity": {"max_tokens": 32_768},
    "repeat": {"passages": 32, "reach": 1},
    "recall": {"rows": 128, "reach": 1, "split": "validation"},
}
"""Settings of the evaluation on a schedule: the same functions on less data, within the training length."""


def choose(names: list[str] | None, kind: str) -> tuple[str, ...]:
    """The suites to run on data of a kind: its defaults, or those named.

    Raises InputError for an unknown suite, or one that needs other data.
    """
    if names is None:
        return DEFAULTS[kind]
    for name in names:
        if name not in SUITES:
            raise InputError(f"unknown suite {name!r}: the suites are {', '.join(SUITES)}")
        if SUITES[name] != kind:
            fitting = ", ".join(suite for suite, needed in SUITES.items() if needed == kind)
            raise InputError(
                f"suite {name!r} needs {SUITES[name]} data, and this run's is {kind}: choose from {fitting}"
            )
    return tuple(dict.fromkeys(names))


def during_training(scorer, data, *, batch_size: int, row_length: int) -> dict[str, float]:
    """The scalars of the data's default suites, by tag, at the settings of DURING_TRAINING."""
    scalars = {}
    if data.kind == "recall":
        settings = DURING_TRAINING["recall"]
        result = recall.measure(scorer, data, training_length=row_length, batch_size=batch_size, **settings)
        return result.scalars()
    text = (scorer, data.validation, data.tokenizer)
    scalars |= perplexity.disjoint(
        *text, window=row_length, batch_size=batch_size, **DURING_TRAINING["perplexity"]
    ).scalars()
    scalars |= repeat.measure(
        *text, training_length=row_length, batch_size=batch_size, **DURING_TRAINING["repeat"]
    ).scalars()
    return scalars
