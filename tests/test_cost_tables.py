"""The command that prints costs: its figures, its layout, and that a wrong figure fails it."""

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.cost_tables import lines
from seqmodels.cost_tables import attention_and_recurrence, mixers, transformer
from seqmodels.cost_tables.table import Table, compact
from seqmodels.mixers import MIXERS

SCRIPT = Path(__file__).parent.parent / "scripts" / "cost_tables.py"


def test_the_published_figures():
    """Multiply-adds of one head of 64 at three lengths, and their ratios."""
    table = attention_and_recurrence.costs()
    assert [row[1:4] for row in table.rows] == [
        ("8.4 M", "2.1 M", "4"),
        ("134 M", "8.4 M", "16"),
        ("2,147 M", "33.6 M", "64"),
    ]


TABLES = {
    "costs": attention_and_recurrence.costs,
    "equality": attention_and_recurrence.equality,
    "memory": attention_and_recurrence.memory,
    "layer": transformer.layer,
    "caches": transformer.caches,
}


@pytest.mark.parametrize("name", TABLES)
def test_every_check_holds(name):
    table = TABLES[name]()
    assert table.checks
    assert [what for what, holds in table.checks if not holds] == []
    assert max(map(len, lines(table))) <= 100


def test_mixers_are_all_there_with_their_crossovers():
    """Linear attention's first cheaper length: 4·H·(K·V + ...) against 4·H·K·N, just past N = 64."""
    flops, states = mixers.tables()
    for table in (flops, states):
        assert {row[0].removesuffix(" *") for row in table.rows} == set(MIXERS)
        assert all(holds for _, holds in table.checks)
        assert max(map(len, lines(table))) <= 100
    found = {row[0]: row[-1] for row in flops.rows}
    assert found["SoftmaxAttention"] == "-"
    assert found["LinearAttention"] == "N = 65"


def test_numbers_keep_three_digits():
    assert [compact(n) for n in (12, 9_999, 8_388_608, 134_217_728, 2_147_483_648)] == [
        "12",
        "9,999",
        "8.4 M",
        "134 M",
        "2,147 M",
    ]


def test_a_figure_that_is_not_confirmed_is_named():
    text = "\n".join(
        lines(Table("T", ("a",), [("1",)], checks=[("one is one", True), ("one is two", False)]))
    )
    assert "1 of 2 checks hold" in text
    assert "FAILED: one is two" in text


def test_the_command_exits_with_its_verdict():
    """A failed check must fail whoever runs the command."""
    done = subprocess.run([sys.executable, SCRIPT, "--mixers"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "checks hold" in done.stdout
    wrong = subprocess.run([sys.executable, SCRIPT, "--mixer"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    code = (
        "import sys; sys.argv = ['cost_tables.py', '--mixers']\n"
        "from scripts import cost_tables; from seqmodels.cost_tables import mixers\n"
        "from seqmodels.cost_tables.table import Table\n"
        "mixers.tables = lambda: [Table('T', ('a',), [], checks=[('it holds', False)])]\n"
        "cost_tables.main()"
    )
    failed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=SCRIPT.parent.parent
    )
    assert failed.returncode == 1
    assert "FAILED: it holds" in failed.stdout
