"""What a run shows while it trains: a live line on a terminal, plain lines elsewhere."""

import datetime
import sys

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column

SHOWN = {  # tag: how it reads
    "train/loss": "loss {:.4f}",
    "train/bits_per_byte": "bits/byte {:.3f}",
    "train/tokens_per_second": "{:,.0f} tokens/s",
}
EVALUATED = {
    "eval/bits_per_byte": "bits/byte {:.3f}",
    "eval/perplexity": "perplexity {:.1f}",
    "eval/recall_area": "recall area {:.3f}",
    "eval/recall_area_interference": "by interference {:.3f}",
}


class Terminal:
    """Shows the progress of `steps` updates."""

    def __init__(self, step: int, steps: int):
        self._steps = steps
        self._console = Console(file=sys.stdout, soft_wrap=True, highlight=False)
        self._progress = None
        if self._console.is_terminal:
            figures = TextColumn(
                "step {task.completed}/{task.total}  {task.description}", table_column=Column(no_wrap=True)
            )
            self._progress = Progress(figures, BarColumn(bar_width=12), console=self._console)
            self._task = self._progress.add_task("", total=steps, completed=step)
            self._progress.start()

    def show(self, step: int, values: dict[str, float], seconds_left: float) -> None:
        """Shows the figures of a step and the time left."""
        figures = [text.format(values[tag]) for tag, text in SHOWN.items() if tag in values]
        left = datetime.timedelta(seconds=round(seconds_left))
        description = "  ".join([*figures, f"{left} left"])
        if self._progress is not None:
            self._progress.update(self._task, completed=step, description=description)
        else:
            self.say(f"step {step}/{self._steps}  {description}")

    def show_evaluation(self, step: int, values: dict[str, float]) -> None:
        """Prints the main figures of an evaluation as a line that stays."""
        figures = [text.format(values[tag]) for tag, text in EVALUATED.items() if tag in values]
        self.say("  ".join([f"step {step}/{self._steps}  validation", *figures]))

    def say(self, text: str) -> None:
        """Prints a line that stays."""
        self._console.print(text, markup=False)
        self._console.file.flush()

    def close(self) -> None:
        """Leaves the last figures standing."""
        if self._progress is not None:
            self._progress.stop()
