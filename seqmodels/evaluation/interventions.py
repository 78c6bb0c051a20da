"""Does it really recall? The row or the state is changed, and the answer must change with it.

On rows: the target's value is swapped, its pair deleted, its key swapped with another pair's, the context cut
in front of the pair or behind it, or to its last tokens. On the state between the pairs and the rest of the
row: it is replaced by that of a row of other values, emptied layer by layer, rounded to few bits. Rows have
the largest load K of training, a delay F from the middle of those of training, and one query. Each figure is
the change of a share of rows between the same rows without and with the intervention; its interval resamples
rows.
"""

import dataclasses
from typing import Any

import numpy as np

from seqmodels.data.tasks.curriculum import measured
from seqmodels.data.tasks.recall_at_distance import RecallAtDistance
from seqmodels.data.tasks.task import numbers
from seqmodels.errors import InputError
from seqmodels.evaluation.intervention_effects import Effect
from seqmodels.evaluation.row_interventions import Rows, by_context, by_row
from seqmodels.evaluation.state_interventions import by_state

_LOOKED_AT = 32  # rows, to see that a task writes nothing but pairs, fillers and a query


@dataclasses.dataclass(frozen=True)
class Interventions:
    """The effects: of changing the row, and of a transplanted state; of emptying each layer, and last of all
    together; of the state in each of BITS; of each number of tokens `kept` before the query.

    Chance is a guess among `values`, or among the row's `pairs`.
    """

    effects: list[Effect]
    layers: list[Effect]
    bits: list[Effect]
    context: list[Effect]
    kept: list[int]
    pairs: int
    fillers: int
    values: int
    rows: int
    split: str
    rows_hash: str

    @property
    def all_effects(self) -> list[Effect]:
        return [*self.effects, *self.layers, *self.bits, *self.context]

    def scalars(self) -> dict[str, float]:
        """Changes by tag."""
        return {f"eval/intervention_{effect.name}": effect.change.value for effect in self.all_effects}

    def summary(self) -> dict:
        return {
            "split": self.split,
            "rows_hash": self.rows_hash,
            "rows": self.rows,
            "pairs": self.pairs,
            "fillers": self.fillers,
            "chance_of_value": 1 / self.values,
            "chance_of_row": 1 / self.pairs,
            "effects": {effect.name: effect.summary() for effect in self.all_effects},
        }


def obstacle(task: Any) -> str | None:
    """Why no interventions can be made on rows of a task, of a curriculum its last; None where they can."""
    task = measured(task)
    name = type(task).__name__
    if not isinstance(task, RecallAtDistance):
        return f"interventions need rows of RecallAtDistance, and the data of this run are {name}"
    if not _loads(task):
        return (
            f"interventions need rows of {name} with 2 pairs or more, and a key and a value that they do not "
            f"hold; this run has pairs = {task.settings['pairs']}, keys = {task.keys}, values = {task.values}"
        )
    if not _plain(task):
        return f"interventions need rows of pairs, fillers and queries alone, as {name} without its switches"
    return None


def measure(
    scorer, task: Any, *, longest: int, batch_size: int, rows: int = 512, split: str = "test"
) -> Interventions:
    """All interventions, on `rows` rows of up to `longest` tokens. A curriculum is measured as its last task.

    scorer: a `Scorer` with `init_state`, `state_after` and `logits_from_state`. Raises InputError for a task
    with an `obstacle`, or whose rows do not fit.
    """
    problem = obstacle(task)
    if problem is not None:
        raise InputError(f"{problem}.")
    task = measured(task)
    settings = _settings(task, longest)
    intact = _rows(task, settings, split, rows)
    transplant, layers, bits = by_state(scorer, intact, batch_size)
    kept, context = by_context(scorer, intact, batch_size)
    return Interventions(
        effects=[*by_row(scorer, intact, batch_size), *transplant],
        layers=layers,
        bits=bits,
        context=context,
        kept=kept,
        pairs=intact.pairs,
        fillers=intact.fillers,
        values=len(task.value_ids),
        rows=rows,
        split=split,
        rows_hash=task.rows_hash(split, 0, rows, **settings),
    )


def _loads(task: RecallAtDistance) -> list[int]:
    """The numbers of pairs of training that leave another pair, a key and a value to change to."""
    return [k for k in sorted(numbers(task.settings["pairs"])) if 2 <= k < min(task.keys, task.values)]


def _plain(task: RecallAtDistance) -> bool:
    """Whether rows are K different keys with a value each, fillers, and the target's key."""
    settings = {
        "pairs": _loads(task)[0],
        "fillers": max(numbers(task.settings["fillers"])),
        "queries_per_row": 1,
    }
    made = task.rows("test", 0, _LOOKED_AT, **settings)
    tokens, known = made.batch["tokens"], made.metadata
    if tokens.shape[1] != 2 * settings["pairs"] + settings["fillers"] + 1:
        return False
    rows = _rows(task, settings, "test", _LOOKED_AT)
    fillers = tokens[:, 2 * rows.pairs : -1]
    parts = ((rows.keys, rows.key_ids), (rows.values, rows.value_ids), (fillers, rows.filler_ids))
    return (
        all(np.isin(ids, alphabet).all() for ids, alphabet in parts)
        and bool((np.diff(np.sort(rows.keys, axis=1), axis=1) > 0).all())
        and np.array_equal(np.take_along_axis(rows.keys, rows.target[:, None], axis=1), tokens[:, -1:])
        and np.array_equal(rows.answer, known["answer"][:, 0])
        and np.array_equal(rows.distance, known["distance"][:, 0])
    )


def _rows(task: RecallAtDistance, settings: dict[str, int], split: str, count: int) -> Rows:
    made = task.rows(split, 0, count, **settings)
    target = settings["pairs"] - 1 - made.metadata["interference"][:, 0]
    alphabets = task.key_ids, task.value_ids, task.filler_ids
    return Rows(made.batch["tokens"], settings["pairs"], target, *alphabets)


def _settings(task: RecallAtDistance, longest: int) -> dict[str, int]:
    """The largest load that fits, behind the middle delay."""
    delays = sorted(numbers(task.settings["fillers"]))
    settings = {"fillers": delays[len(delays) // 2], "queries_per_row": 1}
    needed = {k: task.row_tokens(pairs=k, **settings) for k in _loads(task)}
    fitting = [k for k, tokens in needed.items() if tokens <= longest]
    if not fitting:
        raise InputError(
            f"the rows of the interventions take at least {min(needed.values())} tokens, and rows of up to "
            f"{longest} are evaluated: raise evaluate.row_length."
        )
    return {**settings, "pairs": fitting[-1]}
