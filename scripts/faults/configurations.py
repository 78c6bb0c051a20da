"""What is trained: every family of mixers, on packed rows and on streamed ones, in both compute dtypes.

Whatever could lose its place takes part: documents packed into rows, epochs and windows in random orders,
several of them in a run, dropout, micro-batches, evaluation between the updates.
"""

import itertools
import json
import random
from collections.abc import Iterable
from pathlib import Path

MIXERS = {
    "softmax": "@SoftmaxAttention,",
    "linear": "@LinearAttention,",
    "mamba": "@Mamba,",
    "gated delta": "@GatedDeltaNet,",
    "hybrid": "@Mamba, @SoftmaxAttention",
}
DATA = {
    "packed": """
Text.corpus = @TextFiles()
TextFiles.train = {files}
TextFiles.validation_fraction = 0.3
""",
    "streamed": """
Text.corpus = @HuggingFace()
HuggingFace.path = 'json'
HuggingFace.data_files = {files}
HuggingFace.streaming = True
HuggingFace.shuffle_window = 5
HuggingFace.validation_fraction = 0.3
""",
}
DTYPES = ("float32", "bfloat16")
NAMES = [f"{mixers}, {data}, {dtype}" for dtype, data, mixers in itertools.product(DTYPES, DATA, MIXERS)]

# Updates with a save, with an evaluation, with both and with neither.
TRAINING = """
train.model = @LanguageModel
train.data = @Text()
train.optimizer = @AdamW()
train.steps = 24
train.batch_size = 4
train.row_length = 32
train.accumulation = 2
train.log_every = 1
train.checkpoint_every = 4
train.evaluate_every = 6
AdamW.warmup_steps = 4
LanguageModel.width = 32
LanguageModel.dropout = 0.1
"""


def write(names: Iterable[str], folder: Path) -> dict[str, Path]:
    """Writes the configs of these names, and their corpus, into a new folder; returns the configs by name."""
    folder.mkdir(parents=True)
    files, configs = _corpus(folder), {}
    for name in names:
        mixers, data, dtype = name.split(", ")
        pattern = f"({MIXERS[mixers]})"
        model = f"LanguageModel.depth = {pattern.count('@')}\nLanguageModel.mixers = {pattern}\n"
        model += f"LanguageModel.dtype = '{dtype}'\n"
        configs[name] = folder / f"{name.replace(', ', '_').replace(' ', '_')}.gin"
        configs[name].write_text(TRAINING + model + DATA[data].format(files=files))
    return configs


def _corpus(folder: Path) -> tuple[str, ...]:
    """Two files of JSON lines, some 30 rows in all: three epochs in a run."""
    words, files = random.Random(0), []
    for number in range(2):
        texts = [" ".join(words.choices(("alpha", "beta", "gamma", "delta"), k=12)) for _ in range(12)]
        files.append(folder / f"{number}.jsonl")
        files[-1].write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return tuple(map(str, files))
