"""A comparison as a page: the same tables and pictures as Markdown, and as HTML in one file."""

import base64
import html
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from seqmodels.evaluation import comparison_plots, plots
from seqmodels.evaluation.comparison import ComparedRun
from seqmodels.evaluation.comparison_ledger import Entry, verdict
from seqmodels.evaluation.comparison_paired import Difference
from seqmodels.evaluation.comparison_tables import Table, figures_table, ledger_table, paired_table
from seqmodels.training.run_directory import write_whole

CAPTIONS = {
    "training": "Training, against the tokens trained on",
    "recall": "Recall at a distance, 95 % intervals",
    "recalled_bits": "Recalled bits by the load of a row, 95 % intervals",
    "pareto": "What a byte of state recalls, 95 % intervals",
    "repeat": "What a first copy of a passage saves on the second, 95 % intervals over passages",
    "positions": "Loss by position on the same documents, 95 % bands over documents",
    "learning_rates": "The sweep around the runs, against the learning rate",
}
NOTES = (
    "State bytes and FLOPs a token (forward) at the training length; tokens/s is the median of the run's own "
    "log and depends on the machine. Intervals: 95 % over documents or rows. Recall area: mean accuracy over "
    "log2 distance within what training had; horizon50: tokens until accuracy falls through 1/2; capacity: "
    "the most bits recalled from a row, at any number of pairs. N-gram gain: what an earlier occurrence "
    "saves on a token, against a context that has another in its place; needle: the share of values ranked "
    "first, chance is 1 of 16; "
    "follows a swapped value: the share of rows whose answer is the new value of a changed pair."
)
PAIRED_NOTES = (
    "The same rows for both, resampled together (95 %): an interval that holds 0 tells no winner on these "
    "rows. It says nothing of other seeds of training. Bits of the answer: negative log-likelihood, less is "
    "better."
)
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 2em auto; padding: 0 1em; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1em 0; }
th, td { padding: .3em .8em; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top; }
th { border-bottom: 2px solid #888; }
tr.differs { background: #fde8d8; }
img { max-width: 100%; }
"""


class _Section(NamedTuple):
    """A part of the page: a heading, a table (which may be missing), and a sentence before and behind it."""

    heading: str
    before: str
    table: Table
    behind: str = ""


def write(
    folder: Path, runs: Sequence[ComparedRun], entries: Sequence[Entry], found: Sequence[Difference]
) -> list[Path]:
    """Writes comparison.md with its PNG files, and comparison.html with all inside; returns the two."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {name: plots.png(drawn) for name, drawn in comparison_plots.all_of(runs).items()}
    for name, picture in pictures.items():
        write_whole(folder / f"{name}.png", picture)
    sections = [_Section("Comparison", "", figures_table(runs), NOTES)]
    if found:
        heading = f"Difference to {runs[0].label}"
        sections.append(_Section(heading, "", paired_table(runs[0], found), PAIRED_NOTES))
    sections.append(_Section("Is it fair?", verdict(entries), ledger_table(runs, entries)))
    markdown, page = folder / "comparison.md", folder / "comparison.html"
    write_whole(markdown, _markdown(sections, list(pictures)))
    write_whole(page, _html(sections, pictures))
    return [markdown, page]


def _markdown(sections: Sequence[_Section], pictures: list[str]) -> str:
    def table(lines: Table) -> str:
        cells = [[cell.replace("|", "\\|") for cell in line] for line in lines]
        cells.insert(1, ["---"] * len(lines[0]))
        return "\n".join(f"| {' | '.join(line)} |" for line in cells)

    parts = []
    for heading, before, lines, behind in sections:
        level = "##" if parts else "#"
        parts += [f"{level} {heading}", before, table(lines), behind]
    for name in pictures:
        parts += [f"## {CAPTIONS[name]}", f"![{CAPTIONS[name]}]({name}.png)"]
    return "\n\n".join(part for part in parts if part) + "\n"


def _html(sections: Sequence[_Section], pictures: dict[str, bytes]) -> str:
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

    def paragraph(text: str) -> str:
        return f"<p>{html.escape(text)}</p>" if text else ""

    body = []
    for heading, before, lines, behind in sections:
        level = "h2" if body else "h1"
        body.append(f"<{level}>{html.escape(heading)}</{level}>")
        body += [paragraph(before), table(lines), paragraph(behind)]
    body += [image(name, picture) for name, picture in pictures.items()]
    head = f'<meta charset="utf-8"><title>Comparison</title><style>{STYLE}</style>'
    return f'<!DOCTYPE html><html lang="en"><head>{head}</head><body>{"".join(body)}</body></html>\n'
