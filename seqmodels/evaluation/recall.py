"""The recall suite: accuracy along every sweep of a task; of the house task also its map and recalled bits.

The curves are those that the task asks for. By delay: nothing but fillers stands between a pair and its
query. By interference: nothing but other pairs does. What counts at a point (a row's first query, or all of
them) is said by the sweep; every query is kept in the table.
"""

import dataclasses
import hashlib
import json
from typing import Any

import numpy as np

from seqmodels.data.tasks.curriculum import measured
from seqmodels.data.tasks.recall_at_distance import RecallAtDistance
from seqmodels.data.tasks.task import Task
from seqmodels.evaluation import recall_cells, recalled_bits
from seqmodels.evaluation.answer_kinds import AnswerKinds, by_pairs
from seqmodels.evaluation.answers import Request, ask
from seqmodels.evaluation.recall_cells import Cells, Grid
from seqmodels.evaluation.recall_curve import Curve, curve_of
from seqmodels.evaluation.recalled_bits import RecalledBits

MAP, LOAD = "map", "all pairs"
Table = dict[str, np.ndarray]
Key = tuple[str, Any]
"""What rows are asked for: a curve, the map or a load, and which point, cell or number of pairs of it."""


@dataclasses.dataclass(frozen=True)
class Recall:
    """What was measured of a task.

    curves: by the name of their sweep, the principal one first. kinds: of the answers, by load. cells, bits:
    None where the task is another, or where they were not asked for. table: all queries, as columns of equal
    length; `part` tells what they were asked for. rows_hash: of all rows.
    """

    curves: dict[str, Curve]
    kinds: AnswerKinds
    cells: Cells | None
    bits: RecalledBits | None
    table: Table
    split: str
    rows_hash: str
    training_length: int

    def scalars(self) -> dict[str, float]:
        """By tag; a horizon beyond what was measured is given as the longest distance."""
        (_, first), *others = self.curves.items()
        figures = {"eval/recall_area": first.area.value}
        figures |= {f"eval/recall_area_{name}": curve.area.value for name, curve in others}
        figures["eval/recall_horizon50"] = min(first.horizon50.value, float(first.at[-1]))
        if self.kinds.stale is not None:
            figures["eval/recall_stale_answers"] = self.kinds.stale.value
        if self.bits is not None:
            figures |= self.bits.scalars()
        return {tag: value for tag, value in figures.items() if np.isfinite(value)}

    def summary(self) -> dict:
        return {
            "split": self.split,
            "rows_hash": self.rows_hash,
            "training_length": self.training_length,
            **{f"by_{name}": curve.summary() for name, curve in self.curves.items()},
            "answers": self.kinds.summary(),
            **({} if self.cells is None else {"map": self.cells.summary()}),
            **({} if self.bits is None else {"recalled_bits": self.bits.summary()}),
        }


def measure(
    scorer,
    task: Task,
    *,
    training_length: int,
    longest: int,
    batch_size: int,
    rows: int = 512,
    cell_rows: int = 0,
    split: str = "test",
) -> Recall:
    """All that can be measured of a task in rows of up to `longest` tokens.

    rows: of each point of a curve and each load. cell_rows: of each cell of the map; with 0 there is neither
    map nor recalled bits. A curriculum is measured as its last task.
    """
    task = measured(task)
    sweeps = task.sweeps(longest)
    plan = [
        ((sweep.name, index), Request(point.settings, rows))
        for sweep in sweeps
        for index, point in enumerate(sweep.points)
    ]
    loads: list[int] = []
    if cell_rows > 0 and isinstance(task, RecallAtDistance):
        loads = recalled_bits.loads(task, longest, rows)
        grid = Grid(loads, recall_cells.distances(sweeps))
        cells = recall_cells.requests(task, grid, cell_rows, longest)
        plan += [((MAP, cell), request) for cell, request in cells]
        plan += [((LOAD, k), request) for k in loads for request in recalled_bits.requests(k, rows)]
    asking = {"batch_size": batch_size, "training_length": training_length, "longest": longest}
    answered = ask(scorer, task, [request for _, request in plan], split=split, **asking)
    tables = _by_key([key for key, _ in plan], answered)

    curves = {}
    for sweep in sweeps:
        fits = [task.row_tokens(**point.settings) <= training_length for point in sweep.points]
        trained = np.array(fits) & [point.familiar for point in sweep.points]
        of_points = list(_part(tables, sweep.name).values())
        curves[sweep.name] = curve_of(sweep, of_points, rows, trained, len(task.value_ids))
    every = _joined(list(tables.values()))
    of_loads, of_cells = _part(tables, LOAD), _part(tables, MAP)
    counted = _joined(list(of_loads.values())) if loads else every
    hashes = [task.rows_hash(split, asked.first, asked.rows, **asked.settings) for _, asked in plan]
    return Recall(
        curves=curves,
        kinds=by_pairs(counted, sweeps[0].first_query),
        cells=recall_cells.measure(task, grid, of_cells, training_length) if loads else None,
        bits=recalled_bits.measure(scorer, task, of_loads, training_length) if loads else None,
        table=every,
        split=split,
        rows_hash=hashlib.blake2b(json.dumps(hashes).encode(), digest_size=16).hexdigest(),
        training_length=training_length,
    )


def _by_key(keys: list[Key], tables: list[Table]) -> dict[Key, Table]:
    """The table of each key, which may have had several requests; a column says what they are of."""
    found: dict[Key, list[Table]] = {}
    for key, table in zip(keys, tables, strict=True):
        found.setdefault(key, []).append({"part": np.full(len(table["row"]), key[0]), **table})
    return {key: _joined(several) for key, several in found.items()}


def _part(tables: dict[Key, Table], part: str) -> dict[Any, Table]:
    return {which: table for (name, which), table in tables.items() if name == part}


def _joined(tables: list[Table]) -> Table:
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
