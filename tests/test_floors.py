"""The house stands: nothing imports upwards, and every file holds one idea of a readable length."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "seqmodels"
LONGEST_FILE = 300

# What each part may import of this package beside itself.
FLOORS = {
    "standard_streams": set(),
    "errors": {"standard_streams"},
    "ops": set(),
    "nn": {"ops", "errors"},
    "mixers": {"nn", "ops", "errors"},
}
MODEL = {*FLOORS, "block", "layer_stack", "language_model"} - {"standard_streams"}
FLOORS |= {
    "block": MODEL - {"language_model", "layer_stack"},
    "layer_stack": MODEL - {"language_model"},
    "language_model": MODEL,
}
ABOVE = {"loss", "generation", "accounting", "cost_tables"}
FLOORS |= dict.fromkeys(ABOVE, MODEL | ABOVE)
# Beside the model, knowing nothing of it.
FLOORS |= {"data": {"data", "errors"}, "config": {"config", "errors"}, "command_line": {"config", "errors"}}
OPS_NEED = {"jax", "numpy", "functools", "typing", "collections", "math", "dataclasses"}
# The top floor: these may import whatever the package has.
TOP = {"training", "evaluation", "sweep", "registry", "seqmodels"}
ENTRY_POINTS = {"train", "eval", "scripts", "tests", "benchmarks"}
# Of training, evaluation needs the run directory and the checkpoint reader.
EVALUATION_OF_TRAINING = {"run_directory", "checkpoints"}

FILES = sorted(PACKAGE.rglob("*.py"))


def part_of(module: str) -> str:
    """seqmodels.data.packing -> data; the config loader's files count as one part."""
    name = module.split(".")[1] if "." in module else module
    return "config" if name.startswith("config") else name


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> set[str]:
    """Every module that a file imports, at its top or in a function; names count as modules."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def ours(path: Path) -> set[str]:
    return {name for name in imports(path) if name.split(".")[0] == "seqmodels"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_file_imports_upwards(path):
    """An op that knew a module, or a mixer that knew the training, could not be used or tested alone."""
    part = part_of(module_of(path))
    assert part in FLOORS or part in TOP, f"{part} has no floor: add it to this test"
    assert not {name for name in imports(path) if name.split(".")[0] in ENTRY_POINTS}
    if part in FLOORS:
        upwards = {name for name in ours(path) if part_of(name) not in FLOORS[part] | {part}}
        assert not upwards


@pytest.mark.parametrize("path", sorted((PACKAGE / "ops").glob("*.py")), ids=lambda path: path.stem)
def test_ops_need_jax_and_numpy_alone(path):
    others = {name.split(".")[0] for name in imports(path)} - OPS_NEED - {"seqmodels"}
    assert not others


@pytest.mark.parametrize("path", sorted((PACKAGE / "evaluation").rglob("*.py")), ids=lambda path: path.stem)
def test_evaluation_reads_runs_and_trains_nothing(path):
    """A checkpoint is evaluated from its run directory alone."""
    of_training = {name.split(".")[2] for name in ours(path) if part_of(name) == "training"}
    assert of_training <= EVALUATION_OF_TRAINING


@pytest.mark.parametrize("path", sorted((PACKAGE / "mixers").glob("*.py")), ids=lambda path: path.stem)
def test_a_mixer_file_knows_no_other_mixer(path):
    """One file a family: what two share lies below them."""
    shared = {"base", "kv_cache", "feature_maps", "matrix_state", "rank_one_decay"}
    if path.stem == "__init__":
        return
    assert {name.split(".")[2] for name in ours(path) if part_of(name) == "mixers"} <= shared


def test_every_mixer_file_is_imported_by_the_package():
    """A mixer whose file is not imported would not be in the registry, and no test would find it."""
    imported = {name.split(".")[2] for name in ours(PACKAGE / "mixers" / "__init__.py")}
    registering = {path.stem for path in (PACKAGE / "mixers").glob("*.py") if "@register" in path.read_text()}
    assert registering <= imported


SOURCES = [*FILES, *ROOT.glob("*.py"), *ROOT.glob("scripts/*.py"), *ROOT.glob("tests/**/*.py")]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_are_short_and_well_named(path):
    assert len(path.read_text().splitlines()) <= LONGEST_FILE
    assert not {"utils", "helpers", "misc", "common", "manager"} & set(path.stem.split("_"))
