"""The suites: which evaluators run on which data, and on how much of it.

The evaluation on a schedule during training and that of a checkpoint are the same functions with another
`Scope`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from seqmodels.data.text import Text, text_of
from seqmodels.data.token_store import TokenStore
from seqmodels.errors import InputError
from seqmodels.evaluation import (
    interventions,
    memory,
    needle,
    ngram_hits,
    perplexity,
    positions,
    progress,
    recall,
    repeat,
)

SUITES = {
    "text": {
        "perplexity": ("perplexity", "positions"),
        "recall": ("repeat",),
        "text": ("repeat", "ngram_hits", "needle"),
        "memory": ("memory",),
        "strided": ("strided",),
        "stateful": ("stateful",),
    },
    "recall": {"recall": ("recall",), "memory": ("memory",), "interventions": ("interventions",)},
}
"""By kind of data: every suite, and the evaluators that it stands for."""

# Of a mixture, its text is evaluated as text and its first task as a task.
_OF_TASKS = frozenset(evaluator for suite in SUITES["recall"].values() for evaluator in suite)
SUITES["mixture"] = {
    suite: tuple(dict.fromkeys((*SUITES["text"].get(suite, ()), *SUITES["recall"].get(suite, ()))))
    for suite in dict.fromkeys((*SUITES["text"], *SUITES["recall"]))
}

DEFAULTS = {
    "text": ("perplexity", "recall", "text", "memory"),
    "recall": ("recall", "memory", "interventions"),
}
DEFAULTS["mixture"] = tuple(dict.fromkeys((*DEFAULTS["text"], *DEFAULTS["recall"])))


# What is evaluated on a schedule during training.
SCHEDULED = {"text": ("perplexity", "repeat"), "recall": ("recall",)}
SCHEDULED["mixture"] = (*SCHEDULED["text"], *SCHEDULED["recall"])

# What an evaluation may look at, first what a full one does. The text of a mixture is its validation text.
SPLITS = {"text": ("validation", "train"), "recall": ("test", "validation")}
SPLITS["mixture"] = SPLITS["recall"]


class Scope(NamedTuple):
    """How much an evaluation looks at.

    name: as `evaluate.scope` has it. max_tokens: text tokens that perplexity scores; None: all. passages: of
    the repeat probe, and rows that memory is measured on. rows: of each point of the recall curves, and of
    the interventions; split: what they are drawn from, and of text alone the part that is evaluated. reach:
    how many row lengths the longest rows have. cell_rows: of each cell of the map of recall; with 0 there is
    neither map nor recalled bits.
    """

    name: str
    max_tokens: int | None
    passages: int
    rows: int
    split: str
    reach: int
    cell_rows: int


FULL = Scope("full", max_tokens=None, passages=64, rows=512, split="test", reach=4, cell_rows=48)
DURING_TRAINING = Scope(
    "scheduled", max_tokens=32_768, passages=32, rows=128, split="validation", reach=1, cell_rows=0
)


def scope_of(name: str, split: str | None, kind: str) -> Scope:
    """The scope of a name, of data of a kind; split: in place of its own.

    Raises InputError for a name that there is none of, and for a split that such data do not have.
    """
    scopes = {scope.name: scope for scope in (FULL, DURING_TRAINING)}
    if name not in scopes:
        raise InputError(f"evaluate.scope is {name!r}; it must be one of {', '.join(scopes)}.")
    if split is not None and split not in SPLITS[kind]:
        raise InputError(
            f"evaluate.split is {split!r}; for {kind} data it must be one of {', '.join(SPLITS[kind])}."
        )
    own = scopes[name].split if scopes[name].split in SPLITS[kind] else SPLITS[kind][0]
    return scopes[name]._replace(split=split or own)


def choose(names: Sequence[str] | None, kind: str, scope: Scope = FULL) -> tuple[str, ...]:
    """The evaluators of the suites named, or those that a scope has by default for data of a kind.

    Raises InputError for an unknown suite, or one that needs other data.
    """
    fitting = SUITES[kind]
    for name in names or ():
        if name not in fitting:
            known = any(name in suites for suites in SUITES.values())
            problem = f"suite {name!r} does not fit {kind} data" if known else f"there is no suite {name!r}"
            raise InputError(f"{problem}; for this run there are: {', '.join(fitting)}.")
    if names is None and scope.name == DURING_TRAINING.name:
        return SCHEDULED[kind]
    chosen = DEFAULTS[kind] if names is None else names
    return tuple(dict.fromkeys(evaluator for name in chosen for evaluator in fitting[name]))


def expressible(names: Sequence[str], data, say: Callable[[str], None] = print) -> tuple[str, ...]:
    """Those of the evaluators that the data can express; says why another is left out.

    Raises InputError where none is left.
    """
    mixed, problems = data.kind == "mixture", {}
    if "interventions" in names:
        problems["interventions"] = interventions.obstacle(data.tasks[0] if mixed else data)
    if mixed and data.text is None:
        problems |= {name: "the mixture holds no text" for name in names if name not in _OF_TASKS}
    for name, problem in problems.items():
        if problem is not None:
            say(f"{name} {'were' if name.endswith('s') else 'was'} left out: {problem}.")
    left = tuple(name for name in names if problems.get(name) is None)
    if not left:
        raise InputError(f"none of {', '.join(names)} can be measured: see above.")
    return left


def split_of(evaluator: str, scope: Scope, kind: str) -> str:
    """What an evaluator's figures are of."""
    return "validation" if kind == "mixture" and evaluator not in _OF_TASKS else scope.split


def measure(
    names: Sequence[str],
    scorer,
    data,
    scope: Scope,
    *,
    batch_size: int,
    row_length: int,
    training_length: int,
    training_store=None,
    per_token: bool = False,
) -> dict[str, Any]:
    """The result of each evaluator by name; one that the text does not allow is left out.

    row_length: tokens in a window of perplexity; the others go up to scope.reach times that (repeat,
    whose rows are many, to twice that), or to the end of the model's positions. training_length: tokens in a
    row of training, which the curves mark. training_store: the text of training, in which n-gram hits are
    rare; None where it streams. per_token: perplexity keeps the loss of each token.
    """
    if scorer.max_positions is not None and row_length > scorer.max_positions:
        raise InputError(
            f"evaluate.row_length = {row_length} is longer than the model's {scorer.max_positions} positions."
        )
    of_text = text_of(data)
    if "stateful" in names and of_text is not None:
        perplexity.check_stateful(scorer, _store(of_text, scope), of_text.tokenizer, scope.max_tokens)
    if data.kind == "mixture":
        sizes = {"batch_size": batch_size, "row_length": row_length, "training_length": training_length}
        more = {"training_store": training_store, "per_token": per_token}
        of_tasks = [name for name in names if name in _OF_TASKS]
        results = measure(of_tasks, scorer, data.tasks[0], scope, **sizes)
        if data.text is not None:
            of_text = [name for name in names if name not in _OF_TASKS]
            results |= measure(of_text, scorer, data.text, scope, **sizes, **more)
        return results
    # What recall was found to be stands beside the memory of the same model.
    names = sorted(names, key=lambda name: name == "memory")
    results: dict[str, Any] = {}
    longest = min(scope.reach * row_length, scorer.max_positions or scope.reach * row_length)
    reach = {"training_length": training_length, "longest": longest}
    if data.kind == "recall":
        rows = {"batch_size": batch_size, "rows": scope.rows, "split": scope.split}
        measures = {
            "recall": lambda: recall.measure(scorer, data, **reach, **rows, cell_rows=scope.cell_rows),
            "interventions": lambda: interventions.measure(scorer, data, longest=longest, **rows),
            "memory": lambda: memory.measure(
                scorer,
                data,
                **reach,
                **{**rows, "rows": scope.passages},
                behaviour=memory.behaviour_of(results),
            ),
        }
        return _in_turn(names, measures, results)
    text = (scorer, _store(data, scope), data.tokenizer)
    near = {**reach, "longest": min(longest, 2 * row_length)}
    windows = {"window": row_length, "batch_size": batch_size, "max_tokens": scope.max_tokens}
    windows["per_token"] = per_token
    measures = {
        "perplexity": lambda: perplexity.disjoint(*text, **windows),
        "positions": lambda: positions.measure(*text, **reach, tokens_per_batch=batch_size * row_length),
        "repeat": lambda: repeat.measure(*text, **near, batch_size=batch_size, passages=scope.passages),
        "ngram_hits": lambda: ngram_hits.measure(*text, training_store, **reach, batch_size=batch_size),
        "needle": lambda: needle.measure(*text, **reach, batch_size=batch_size),
        "strided": lambda: perplexity.strided(*text, **windows, stride=max(1, row_length // 2)),
        "stateful": lambda: perplexity.stateful(*text, **windows),
        "memory": lambda: memory.measure(
            scorer,
            data,
            **near,
            batch_size=batch_size,
            rows=scope.passages,
            behaviour=memory.behaviour_of(results),
        ),
    }
    return _in_turn(names, measures, results)


def _store(text: Text, scope: Scope) -> TokenStore:
    return text.train if scope.split == "train" else text.validation


def _in_turn(
    names: Sequence[str], measures: dict[str, Callable[[], Any]], results: dict[str, Any]
) -> dict[str, Any]:
    """`results`, filled with what each measure gives; without those that give None."""
    for name in names:
        progress.begins(name)
        result = measures[name]()
        if result is not None:
            results[name] = result
    return results


def during_training(scorer, data, *, batch_size: int, row_length: int) -> dict[str, float]:
    """The scalars by tag of what is evaluated on a schedule; row_length is that of training."""
    results = measure(
        SCHEDULED[data.kind],
        scorer,
        data,
        DURING_TRAINING,
        batch_size=batch_size,
        row_length=row_length,
        training_length=row_length,
    )
    return {tag: value for result in results.values() for tag, value in result.scalars().items()}
