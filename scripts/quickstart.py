"""From nothing to a trained, evaluated and sampled language model: `make quickstart`.

Runs the three commands that a user would type, then says where their results lie. A second call goes on
where the first stopped, or says in one line that everything is done.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

CONFIG = "configs/quickstart.gin"
RUN = Path("runs/quickstart")
SAMPLE = ("--prompt", "def __init__(self", "--max-new-tokens", "120", "--temperature", "0.7", "--seed", "0")


def main() -> None:
    os.chdir(Path(__file__).resolve().parent.parent)
    began = time.monotonic()
    evaluation = newest_evaluation()
    if evaluation is not None:
        print(f"quickstart is done: {RUN} is trained and evaluated ({evaluation / 'summary.json'}).")
        return
    command("train.py", CONFIG, "--run-dir", str(RUN))
    command("eval.py", str(RUN), "--suite", "perplexity,recall")
    command("scripts/generate.py", str(RUN), *SAMPLE)
    closing_table(newest_evaluation(), time.monotonic() - began)


def command(*words: str) -> None:
    """Prints a command as a user would type it and runs it; a failure ends with its status."""
    shown = " ".join(f"'{word}'" if " " in word else word for word in words)
    print(f"\n$ python {shown}", flush=True)
    status = subprocess.run([sys.executable, *words]).returncode
    if status:
        sys.exit(status)


def newest_evaluation() -> Path | None:
    """The folder of the newest finished evaluation of the run, if there is one."""
    found = sorted(RUN.glob("eval/*/summary.json"), key=lambda path: int(path.parent.name))
    return found[-1].parent if found else None


def closing_table(evaluation: Path, seconds: float) -> None:
    """What was reached, against its controls, and where everything lies."""
    suites = json.loads((evaluation / "summary.json").read_text(encoding="utf-8"))["suites"]
    bits = suites["perplexity"]["bits_per_byte"]
    control = suites["perplexity"]["byte_models"]["bits_per_byte"]["order_2"]
    nearest = suites["repeat"]["by_distance"][0]
    gain, python = nearest["gain"], Path(sys.executable).relative_to(Path.cwd())
    rows = (
        ("bits per byte", f"{interval(bits)}; an order-2 byte model on the same split: {control:.3f}"),
        ("recall gain", f"{interval(gain)} bits a token, for a passage {nearest['distance']} tokens before"),
        ("figures", f"{evaluation / 'summary.json'}"),
        *(("picture", str(path)) for path in sorted(evaluation.glob("*.png"))),
        ("curves", f"{python.with_name('tensorboard')} --logdir {RUN.parent}"),
        ("train on", f"{python} train.py {CONFIG} --run-dir {RUN} --gin.train.steps=1000"),
    )
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(*row)
    print(f"\nquickstart: trained, evaluated and sampled in {seconds / 60:.1f} minutes")
    Console(width=120, highlight=False, markup=False).print(table)


def interval(estimate: dict[str, float]) -> str:
    """A figure with its 95 % interval."""
    return f"{estimate['value']:.3f} ({estimate['low']:.3f} to {estimate['high']:.3f})"


if __name__ == "__main__":
    main()
