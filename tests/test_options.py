"""Options of all commands: what is unknown, doubled, cut or glued together is refused, in one sentence."""

import subprocess
import sys
import time

import pytest

import eval as eval_command
import train as train_command
from scripts import benchmark, compare, cost_tables, fault_campaign, generate, sweep
from tests.commands import call
from tests.small_run import ROOT

COMMANDS = {
    "train.py": train_command,
    "eval.py": eval_command,
    "scripts/generate.py": generate,
    "scripts/compare.py": compare,
    "scripts/sweep.py": sweep,
    "scripts/benchmark.py": benchmark,
    "scripts/cost_tables.py": cost_tables,
    "scripts/fault_campaign.py": fault_campaign,
}


@pytest.mark.parametrize(
    ("command", "arguments", "words"),
    [
        ("train.py", "", "the following arguments are required: CONFIG.gin. See train.py --help."),
        ("train.py", "a.gin --overide lr=1", "unrecognized arguments: --overide"),
        ("train.py", "a.gin --chek", "unrecognized arguments: --chek; did you mean '--check'?"),
        ("train.py", "a.gin --run_dir=x --check", "did you mean '--run-dir'?"),
        ("train.py", "a.gin --gin train.steps=3 --check", "a setting is written --gin.NAME=VALUE."),
        ("train.py", "a.gin --train.steps=3 --check", "a setting is written --gin.NAME=VALUE."),
        ("train.py", "a.gin --run-dir x --run-dir y", "--run-dir is given twice."),
        (
            "train.py",
            "a.gin --run-dir",
            "one argument; one that begins with - is written --NAME=-VALUE.",
        ),
        ("train.py", "a.gin --run-dir x --resume allways", "invalid choice: 'allways'"),
        ("eval.py", "", "the following arguments are required: RUN_DIR"),
        ("eval.py", "run other", "unrecognized arguments: other; a setting is written --gin.NAME=VALUE."),
        ("eval.py", "run --step 1 --step 2", "--step is given twice."),
        ("eval.py", "run --suit text", "did you mean '--suite'?"),
        ("scripts/generate.py", "run --prompt a --seed 1 --seed 2", "--seed is given twice."),
        ("scripts/generate.py", "run --prompt a --top-k x", "argument --top-k: invalid int value: 'x'."),
        ("scripts/generate.py", "run --prompt a --gin.x=3", "settings are those of the run."),
        ("scripts/generate.py", "run --prompt a --max-tokens 3", "did you mean '--max-new-tokens'?"),
        ("scripts/compare.py", "run", "the following arguments are required: --out"),
        ("scripts/compare.py", "run --out a --out b", "--out is given twice."),
        ("scripts/sweep.py", "a.gin --run-dir x --worker 2", "did you mean '--workers'?"),
        ("scripts/sweep.py", "a.gin --run-dir x --workers 0", "--workers is 0, expected at least 1."),
        ("scripts/benchmark.py", "op", "there is no part 'op'; the parts are ops"),
        ("scripts/benchmark.py", "ops --rounds 0", "--rounds is 0, expected at least 1."),
        ("scripts/cost_tables.py", "--mixer", "did you mean '--mixers'?"),
        ("scripts/fault_campaign.py", "", "--kills N or --damages N is to be given, at least 1."),
        ("scripts/fault_campaign.py", "--kill 3", "did you mean '--kills'?"),
    ],
)
def test_options_that_are_not_understood(capsys, command, arguments, words):
    """Guessed or dropped, a command does something else than what was asked."""
    assert call(COMMANDS[command], *arguments.split()) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1
    assert words in error and f"See {command.rpartition('/')[2]} --help." in error


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_help_comes_at_once(command):
    """What --help must import is what every typing error waits for."""
    start = time.perf_counter()
    done = subprocess.run([sys.executable, command, "--help"], cwd=ROOT, capture_output=True, text=True)
    assert time.perf_counter() - start < 2
    assert done.returncode == 0 and done.stdout.startswith("usage: ")
