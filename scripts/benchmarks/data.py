"""What feeds a model against the model: evaluation against the forward pass, rows of a task against steps."""

import functools

import jax
import numpy as np

from benchmarks.comparison import Comparison, Contender, Target
from benchmarks.step import CONFIGS, job_of, steps
from seqmodels.data.tokenizers import ByteTokenizer
from seqmodels.evaluation import perplexity
from seqmodels.evaluation.model_scorer import ModelScorer
from seqmodels.language_model import LanguageModel, build
from seqmodels.training import hardware

TOKENS = 1_000_000
ROWS, LENGTH = 16, 256
DOCUMENT_BYTES = (200, 20_000)


def comparisons():
    """The tables, in the order they are printed."""
    hardware.set_precision("float32")
    yield evaluation(width=128, depth=4)
    yield task_rows(CONFIGS.parent / "recall" / "transformer.gin")


class _Bytes:
    """A token store in memory: documents of random bytes, as long as files are."""

    def __init__(self, tokens: int):
        generator = np.random.default_rng(0)
        lengths = generator.integers(*DOCUMENT_BYTES, size=tokens // DOCUMENT_BYTES[0])
        ends = np.minimum(np.cumsum(lengths), tokens)
        self.offsets = np.concatenate([[0], ends[: int(np.searchsorted(ends, tokens)) + 1]])
        self.tokens = generator.integers(256, size=tokens).astype(np.uint16)
        self.document_bytes = np.diff(self.offsets)


def evaluation(*, width, depth):
    """Perplexity of a million byte tokens, documents, windows and intervals included, against as many rows
    through the same compiled loss.
    """
    tokenizer, store = ByteTokenizer(), _Bytes(TOKENS)
    model = functools.partial(LanguageModel, width=width, depth=depth)
    graphdef, params, _ = build(model, tokenizer.vocab_size)
    scorer = ModelScorer(graphdef, params)
    batch = (np.zeros((ROWS, LENGTH), np.int32), np.ones((ROWS, LENGTH), np.int32), np.zeros((ROWS, LENGTH)))
    measure = functools.partial(perplexity.disjoint, scorer, store, tokenizer, window=LENGTH, batch_size=ROWS)

    def forward():
        for _ in range(-(-TOKENS // (ROWS * LENGTH))):
            loss = scorer.nll(*batch)
        jax.block_until_ready(loss)

    work = TOKENS, "tokens"
    return Comparison(
        f"perplexity of {TOKENS:,} bytes, width {width}, {depth} layers, {ROWS} rows of {LENGTH}",
        (Contender("evaluation", measure, work=work), Contender("bare forward", forward, work=work)),
        (Target("evaluation", ("bare forward",), 0.9, "rate"),),
    )


def task_rows(path):
    """Rows of recall at a distance as training takes them, against the steps that consume them."""
    job, settings = job_of(path)
    compiled = job.compile(deterministic=False).function
    step = steps(compiled, job.new_state(), job.place(next(job.stream)), job.dials)
    work = settings["batch_size"], "rows"
    return Comparison(
        f"{settings['batch_size']} rows of configs/recall/{path.name}",
        (
            Contender("made", lambda: next(job.stream), work=work),
            Contender("trained on", step, work=work),
        ),
        (Target("made", ("trained on",), 5, "rate"),),
    )
