"""Prints what mixers cost, by formula and by count: python scripts/cost_tables.py [--mixers]"""

import argparse
import sys
from pathlib import Path

# From a checkout the package need not be installed.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from seqmodels.command_line import Parser
from seqmodels.errors import exit_status


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options of the command line."""
    parser = Parser(
        prog="cost_tables.py",
        description="Costs of sequence mixers, each figure checked a second way; status 1 where one fails.",
    )
    parser.add_argument(
        "--mixers", action="store_true", help="every registered mixer at lengths of 256 to 65,536 instead"
    )
    return parser.parse_args(arguments)


def lines(table) -> list[str]:
    """A table as text: columns as wide as their widest cell, the first flush left, the others right."""
    cells = [table.header, *table.rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(table.header))]
    text = [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    failed = [what for what, holds in table.checks if not holds]
    verdict = f"{len(table.checks) - len(failed)} of {len(table.checks)} checks hold"
    return [
        table.title,
        rule,
        text[0],
        rule,
        *text[1:],
        rule,
        *table.note.splitlines(),
        *([verdict] if table.checks else []),
        *(f"FAILED: {what}" for what in failed),
        "",
    ]


def main() -> None:
    with exit_status():
        options = parse(sys.argv[1:])
    from seqmodels.cost_tables import attention_and_recurrence, mixers, transformer  # JAX: seconds

    if options.mixers:
        tables = mixers.tables()
    else:
        tables = [
            attention_and_recurrence.costs(),
            attention_and_recurrence.equality(),
            attention_and_recurrence.memory(),
            transformer.layer(),
            transformer.caches(),
        ]
    for table in tables:
        print("\n".join(lines(table)))
    sys.exit(0 if all(holds for table in tables for _, holds in table.checks) else 1)


if __name__ == "__main__":
    main()
