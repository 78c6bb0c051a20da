"""A comparison as a page: the same tables and pictures as Markdown, and as HTML in one file."""

import base64
import html
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from seqmodels.evaluation import comparison_plots, plots
from seqmodels.evaluation.comparison import ComparedRun, Entry, estimate, logged, sweeps
from seqmodels.training.run_directory import write_whole

Table = list[list[str]]
NONE = "-"
_CAPACITY = "eval/recall_capacity_bits"
_DENSITY = "eval/recall_capacity_bits_per_state_element"
CAPTIONS = {
    "training": "Training, against the tokens trained on",
    "recall": "Recall at a distance, 95 % intervals",
    "recalled_bits": "Recalled bits by the load of a row, 95 % intervals",
    "repeat": "What a first copy of a passage saves on the second, 95 % intervals over passages",
    "positions": "Loss by position on the same documents, 95 % bands over documents",
}
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 2em auto; padding: 0 1em; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1em 0; }
th, td { padding: .3em .8em; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top; }
th { border-bottom: 2px solid #888; }
tr.differs { background: #fde8d8; }
img { max-width: 100%; }
"""


def write(folder: Path, runs: Sequence[ComparedRun], entries: Sequence[Entry]) -> list[Path]:
    """Writes comparison.md with its PNG files, and comparison.html with all inside; returns the two."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {name: plots.png(drawn) for name, drawn in comparison_plots.all_of(runs).items()}
    for name, picture in pictures.items():
        (folder / f"{name}.png").write_bytes(picture)
    figures, fairness = figures_table(runs), ledger_table(runs, entries)
    markdown, page = folder / "comparison.md", folder / "comparison.html"
    write_whole(markdown, _markdown(figures, fairness, verdict(entries), list(pictures)))
    write_whole(page, _html(figures, fairness, verdict(entries), pictures))
    return [markdown, page]


def show(runs: Sequence[ComparedRun], entries: Sequence[Entry]) -> None:
    """Prints the figures, a column a run, and what is not equal."""
    from rich.console import Console
    from rich.table import Table as Drawn

    drawn = Drawn(box=None, padding=(0, 2, 0, 0), show_header=False)
    for line in zip(*figures_table(runs), strict=True):
        drawn.add_row(*line)
    console = Console(file=sys.stdout, highlight=False, markup=False)
    console.print(drawn)
    console.print(verdict(entries))


def figures_table(runs: Sequence[ComparedRun]) -> Table:
    """A header, and a line a run; figures that no run has are left out."""
    header = ["run", "mixers", "step", "parameters", "state bytes", "FLOPs/token", "tokens/s", "bits/byte"]
    curves = sweeps(runs) or ["delay", "interference"]
    header += [f"recall area, {name}" for name in curves] + [f"horizon50, {name}" for name in curves]
    header += ["capacity (bits)", "bits per state element"]
    lines = [
        [
            run.label,
            run.mixers,
            f"{run.step:,}",
            f"{run.parameters:,}",
            f"{run.state_bytes:,}",
            f"{run.flops_per_token:,.0f}",
            NONE if run.tokens_per_second is None else f"{run.tokens_per_second:,.0f}",
            _figure(run, "eval/bits_per_byte", "perplexity", "bits_per_byte"),
            *(_figure(run, _area_tag(name, curves), "recall", f"by_{name}", "area") for name in curves),
            *(_horizon(run, f"by_{name}") for name in curves),
            _figure(run, _CAPACITY, "recall", "recalled_bits", "capacity", digits=1),
            _figure(run, _DENSITY, "recall", "recalled_bits", "capacity_per_state_element", digits=5),
        ]
        for run in runs
    ]
    kept = [column for column in range(len(header)) if any(line[column] != NONE for line in lines)]
    return [[line[column] for column in kept] for line in [header, *lines]]


def ledger_table(runs: Sequence[ComparedRun], entries: Sequence[Entry]) -> Table:
    """A header, and a line for each thing that should be equal."""
    header = ["should be equal", *(run.label for run in runs), ""]
    return [header] + [[entry.item, *entry.values, "" if entry.fair else "DIFFERS"] for entry in entries]


def verdict(entries: Sequence[Entry]) -> str:
    """One sentence on whether the figures compare."""
    differing = [entry.item for entry in entries if not entry.fair]
    if not differing:
        return "The runs are equal in all that should be equal."
    return f"The runs differ in what should be equal: {', '.join(differing)}."


def _area_tag(name: str, curves: Sequence[str]) -> str:
    """The first curve's tag bears no name."""
    return "eval/recall_area" if name == curves[0] else f"eval/recall_area_{name}"


def _figure(run: ComparedRun, tag: str, suite: str, *path: str, digits: int = 3) -> str:
    """With its interval where eval.py measured it, else as logged during training."""
    found = estimate(run, suite, *path)
    if found is not None and math.isfinite(found.value):
        value, interval = found.shown(digits)
        return f"{value} ({interval})"
    value = logged(run, tag)
    return NONE if value is None else f"{value:.{digits}f} in training"


def _horizon(run: ComparedRun, curve: str) -> str:
    found = estimate(run, "recall", curve, "horizon50")
    if found is None:
        return NONE
    distances = [point["at"] for point in run.suites["recall"][curve]["points"]]

    def shown(value: float) -> str:
        if value == 0:
            return f"< {distances[0]}"
        return f"> {distances[-1]}" if value > distances[-1] else f"{value:.1f}"

    return f"{shown(found.value)} ({shown(found.low)} to {shown(found.high)})"


NOTES = (
    "State bytes and FLOPs a token (forward) at the training length; tokens/s is the median of the run's own "
    "log and depends on the machine. Intervals: 95 % over documents or rows. Recall area: mean accuracy over "
    "log2 distance within what training had; horizon50: tokens until accuracy falls through 1/2; capacity: "
    "the most bits recalled from a row, at any number of pairs."
)


def _markdown(figures: Table, fairness: Table, sentence: str, pictures: list[str]) -> str:
    def table(lines: Table) -> str:
        cells = [[cell.replace("|", "\\|") for cell in line] for line in lines]
        cells.insert(1, ["---"] * len(lines[0]))
        return "\n".join(f"| {' | '.join(line)} |" for line in cells)

    parts = ["# Comparison", table(figures), NOTES, "## Is it fair?", sentence, table(fairness)]
    for name in pictures:
        parts += [f"## {CAPTIONS[name]}", f"![{CAPTIONS[name]}]({name}.png)"]
    return "\n\n".join(parts) + "\n"


def _html(figures: Table, fairness: Table, sentence: str, pictures: dict[str, bytes]) -> str:
    def table(lines: Table) -> str:
        rows = []
        for index, line in enumerate(lines):
            cell = "td" if index else "th"
            marked = ' class="differs"' if line[-1] == "DIFFERS" else ""
            cells = "".join(f"<{cell}>{html.escape(text)}</{cell}>" for text in line)
            rows.append(f"<tr{marked}>{cells}</tr>")
        return f'<div class="wide"><table>{"".join(rows)}</table></div>'

    def image(name: str, picture: bytes) -> str:
        data = base64.b64encode(picture).decode()
        return f'<h2>{CAPTIONS[name]}</h2><img alt="{CAPTIONS[name]}" src="data:image/png;base64,{data}">'

    body = [
        "<h1>Comparison</h1>",
        table(figures),
        f"<p>{NOTES}</p>",
        "<h2>Is it fair?</h2>",
        f"<p>{html.escape(sentence)}</p>",
        table(fairness),
        *(image(name, picture) for name, picture in pictures.items()),
    ]
    head = f'<meta charset="utf-8"><title>Comparison</title><style>{STYLE}</style>'
    return f'<!DOCTYPE html><html lang="en"><head>{head}</head><body>{"".join(body)}</body></html>\n'
