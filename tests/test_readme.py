"""What the README and the docs tell a reader to type works, and what they point to is there."""

import re
import shlex
import subprocess
import sys
import sysconfig

import pytest

from tests.small_run import ROOT, environment

STANDARD_LIBRARY = sysconfig.get_path("stdlib")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TINY = [
    f"--gin.{setting}"
    for setting in (
        "train.steps=2",
        "train.batch_size=2",
        "train.row_length=64",
        "LanguageModel.width=32",
        "LanguageModel.depth=1",
        "Text.tokenizer=@ByteTokenizer()",
        "Text.corpus=@TextFiles()",
        f"TextFiles.train={STANDARD_LIBRARY}/email/*.py",
    )
]


def commands(text: str) -> list[str]:
    """The lines of fenced blocks that run Python, without their comments."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line.split("  #")[0].strip() for line in lines if line.startswith("python ")]


def shrunk(words: list[str], settings: list[str]) -> list[str]:
    """A command with other settings, in the place of its own of those names."""
    names = {setting.partition("=")[0] for setting in settings}
    return [word for word in words if word.partition("=")[0] not in names] + settings


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_named_are_there(page):
    """A renamed script, config or page leaves its old name in the text otherwise."""
    text = page.read_text()
    links = [page.parent / link for link in re.findall(r"\]\(([^)#:]+)\)", text)]
    words = " ".join(commands(text)).split()
    named = [ROOT / word for word in words if word.endswith((".py", ".gin")) and word.islower()]
    assert [path for path in links + named if not path.exists()] == []


@pytest.mark.slow
def test_commands_of_the_readme_run(tmp_path):
    """The commands a newcomer types, in their order, on a model shrunk to seconds."""
    listed = commands((ROOT / "README.md").read_text())
    listed = ["python train.py configs/quickstart.gin --run-dir runs/quickstart", *listed]
    ran = set()
    for line in listed:
        words = [word.replace("runs/", f"{tmp_path}/") for word in shlex.split(line)[1:]]
        if any(word.isupper() for word in words) or "benchmark.py" in line or line in ran:
            continue
        if words[0] == "train.py":
            words = shrunk(words, TINY)
        if words[0] == "scripts/sweep.py":  # one rate and one seed, on the data of the configs
            words = shrunk([word.split(",")[0] for word in words], TINY[:2] + TINY[3:5])
        done = subprocess.run(
            [sys.executable, *words], cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        ran.add(line)
    scripts = {line.split()[1] for line in ran}
    assert scripts >= {"train.py", "eval.py", "scripts/generate.py", "scripts/compare.py"}
