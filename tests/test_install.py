"""What an installation takes, and what the package needs once it is there."""

import subprocess
import sys

import pytest
from packaging.requirements import Requirement

from tests.small_run import ROOT, environment

IMPORT_ALL = """
import importlib, pkgutil, sys
sys.modules.update(dict.fromkeys(("torch", "tensorflow", "triton")))  # importing one of them raises
import seqmodels
names = [module.name for module in pkgutil.walk_packages(seqmodels.__path__, "seqmodels.")]
for name in [*names, "train", "eval"]:
    importlib.import_module(name)
print(len(names))
"""


@pytest.mark.parametrize("file", ["requirements.txt", "requirements-dev.txt"])
def test_requirements_are_such_as_a_package_can_declare_with_both_bounds(file):
    """pip reads more from such a file than a package's metadata can hold: then `pip install .` fails."""
    lines = [line for line in (ROOT / file).read_text().splitlines() if not line.startswith("#")]
    assert lines
    for line in lines:
        operators = {each.operator for each in Requirement(line).specifier}
        assert operators == {"=="} or operators == {">=", "<"}, line


@pytest.mark.slow
def test_every_module_imports_where_there_is_no_other_framework():
    """One import of another framework, somewhere, would make it a requirement of all."""
    command = [sys.executable, "-W", "error", "-c", IMPORT_ALL]
    done = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 150
