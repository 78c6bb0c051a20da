"""docs/add_a_mixer.md is followed for real: its mixer passes the contract without a test of its own."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from seqmodels.mixers import MIXERS

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "tests" / "mixers" / "example"
GUIDE = (ROOT / "docs" / "add_a_mixer.md").read_text()


@pytest.mark.parametrize("name", ["exponential_average.py", "reference.py"])
def test_the_guide_shows_the_code_that_is_tested(name):
    """Code in a guide that nobody runs stops working unseen."""
    blocks = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.DOTALL)
    assert (EXAMPLE / name).read_text() in blocks


def test_the_contract_finds_the_new_mixer():
    """In a process of its own: a mixer registered in this one would be found by every other test as well."""
    contract = sorted(str(path) for path in Path(__file__).parent.glob("test_contract_*.py"))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow",
    ]
    chosen = ["-p", "tests.mixers.example.registered", "-k", "ExponentialAverage or reference", *contract]
    done = subprocess.run([*command, *chosen], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    passed = int(re.search(r"(\d+) passed", done.stdout).group(1))
    assert passed >= 40 and "skipped" not in done.stdout, done.stdout


def test_its_config_is_one_line():
    """Step 3 of the guide names it as the guide says."""
    assert "LanguageModel.mixers = (@ExponentialAverage,)" in GUIDE
    assert "ExponentialAverage" not in MIXERS, "the example must stay out of the package"
