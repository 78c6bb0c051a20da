"""What an evaluation leaves in eval/STEP: summary.json, tables, pictures."""

import csv
import io
import json
from pathlib import Path
from typing import Any

from seqmodels.evaluation import plots, plots_interventions, plots_memory, plots_recall, plots_text
from seqmodels.evaluation.answers import ANSWER_KINDS
from seqmodels.evaluation.interventions import Interventions
from seqmodels.evaluation.json_numbers import encoded
from seqmodels.evaluation.memory import Memory
from seqmodels.evaluation.needle import Needle
from seqmodels.evaluation.ngram_hits import NgramHits
from seqmodels.evaluation.perplexity import Perplexity
from seqmodels.evaluation.positions import PositionCurve
from seqmodels.evaluation.recall import Recall
from seqmodels.evaluation.repeat import Repeat
from seqmodels.training.run_directory import write_whole

SUMMARY = "summary.json"


def pictures(results: dict[str, Any], title: str) -> dict[str, bytes]:
    """PNG files of the suites that have a curve, by name."""
    drawn = {}
    for name, result in results.items():
        match result:
            case PositionCurve():
                drawn[name] = plots.png(plots.positions(result, title))
            case Repeat():
                drawn[name] = plots.png(plots.repeat(result, title))
            case NgramHits():
                drawn[name] = plots.png(plots_text.ngram_hits(result, title))
            case Needle():
                drawn[name] = plots.png(plots_text.needle(result, title))
            case Recall():
                figures = plots_recall.all_of(result, title)
                drawn |= {of: plots.png(figure) for of, figure in figures.items()}
            case Memory():
                drawn[name] = plots.png(plots_memory.memory(result, title))
            case Interventions():
                drawn[name] = plots.png(plots_interventions.interventions(result, title))
    return drawn


def write_tables(folder: Path, results: dict[str, Any]) -> None:
    """positions.csv, recall.parquet, needle.parquet, tokens.parquet and memory.json, of the suites that were
    run.

    tokens.parquet has the disjoint windows, where their tokens were kept; other protocols add their name.
    """
    for name, result in results.items():
        match result:
            case Perplexity(table=dict(table)):
                of = "" if name == "perplexity" else f"_{name}"
                _write_table(folder / f"tokens{of}.parquet", table)
            case Memory():
                text = json.dumps(encoded(result.document()), indent=1, allow_nan=False)
                write_whole(folder / "memory.json", text)
            case Needle():
                _write_table(folder / "needle.parquet", result.table)
            case PositionCurve():
                write_whole(folder / "positions.csv", _positions(result))
            case Recall():
                _write_queries(folder / "recall.parquet", result)


def write_summary(folder: Path, facts: dict[str, Any], suites: dict[str, Any]) -> None:
    """summary.json: `facts`, and the figures of each suite; those of an earlier call's other suites stay."""
    path = folder / SUMMARY
    earlier = json.loads(path.read_text(encoding="utf-8"))["suites"] if path.is_file() else {}
    text = json.dumps(encoded({**facts, "suites": {**earlier, **suites}}), indent=1, allow_nan=False)
    write_whole(path, text)


def _positions(curve: PositionCurve) -> str:
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(
        ["first_position", "last_position", "nll_nats", "low", "high", "documents", "training_length"]
    )
    for row in zip(curve.first, curve.last, curve.nll, curve.low, curve.high, strict=True):
        lines.writerow([*row, curve.documents, curve.training_length])
    return text.getvalue()


def _write_queries(path: Path, result: Recall) -> None:
    import pyarrow

    kinds = pyarrow.DictionaryArray.from_arrays(result.table["kind"].astype("int8"), list(ANSWER_KINDS))
    _write_table(path, {**result.table, "kind": kinds})


def _write_table(path: Path, columns: dict[str, Any]) -> None:
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table(columns)
    partial = path.with_name(f".{path.name}.partial")
    pyarrow.parquet.write_table(table, partial)
    partial.replace(path)
