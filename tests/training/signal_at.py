"""Runs train.py, which sends itself a signal: signal_at.py SIGNAL (update|save) STEP ARGUMENTS...

At "update" the update has been started, at "save" its checkpoint is being written in the background.
"""

import os
import runpy
import sys
import time
from pathlib import Path

from seqmodels.training.checkpoints import Checkpoints
from seqmodels.training.recorder import Recorder

number, moment, step = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
owner, name = {"update": (Recorder, "add"), "save": (Checkpoints, "save")}[moment]
original = getattr(owner, name)


def then_signal(self, at, *arguments):
    original(self, at, *arguments)
    if at == step:
        os.kill(os.getpid(), number)
        time.sleep(0.1)  # the thread that watches for signals takes note


setattr(owner, name, then_signal)
sys.argv = ["train.py", *sys.argv[4:]]
runpy.run_path(str(Path(__file__).parents[2] / "train.py"), run_name="__main__")
