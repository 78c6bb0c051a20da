"""`evaluate`: from a run directory to its figures, tables and pictures in eval/STEP."""

import os
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gin
import jax
import numpy as np

from seqmodels import accounting
from seqmodels.data.corpora import Corpus
from seqmodels.data.text import Text, text_of
from seqmodels.errors import InputError
from seqmodels.evaluation import artifacts, event_file, progress, report
from seqmodels.evaluation.byte_model import ByteModel
from seqmodels.evaluation.model_scorer import ModelScorer
from seqmodels.evaluation.perplexity import Perplexity
from seqmodels.evaluation.suites import FULL, Scope, choose, expressible, measure, scope_of, split_of
from seqmodels.evaluation.trained_run import TrainedRun, load, prepare_data, tokens_seen
from seqmodels.training.run_directory import RunDirectory, write_whole

BYTE_MODEL_ORDER = 3
# Of the training text, which bounds the time and memory of counting; summary.json says how many there were.
BYTE_MODEL_BYTES = 32_000_000
TOO_LITTLE = "the text holds too little for it"
NO_COUNTS = "the training text streams, so that its pairs of tokens cannot be counted"


@gin.configurable(denylist=["run", "step", "say"])
def evaluate(
    run: RunDirectory,
    step: int | str = "latest",
    say: Callable[[str], None] = print,
    *,
    suites: Sequence[str] | None = None,
    corpus: Corpus | None = None,
    batch_size: int | None = None,
    row_length: int | None = None,
    per_token: bool = False,
    split: str | None = None,
    scope: str = "full",
) -> Path:
    """Evaluates a checkpoint, prints its table and writes eval/STEP; returns that folder.

    What is evaluated of another split or scope than by default goes into a folder of its own inside it.

    Args:
        run: its config has been loaded.
        step: of the checkpoint: a number, "latest" or "best".
        say: takes what is printed beside the table.
        suites: which; by default those that fit the data.
        corpus: text whose validation split is evaluated in place of the run's own.
        batch_size: rows at a time; by default as in training.
        row_length: tokens in a window of perplexity, and a quarter of those in the longest row; by default as
            in training.
        per_token: write tokens.parquet: each token that perplexity scored, its condition and its loss.
        split: of text "validation" (default) or "train", the text of training; of a task "test" (default) or
            "validation".
        scope: "full", or "scheduled": what training evaluates on its schedule, to the same figures where
            the settings above are left out.

    Raises:
        InputError: no such checkpoint, a suite that does not fit, other data than the run was trained on, a
            split that the data do not have, or a folder that cannot be written.
    """
    for name, value in (("batch_size", batch_size), ("row_length", row_length)):
        if value is not None and value < 1:
            raise InputError(f"evaluate.{name} = {value} should be at least 1.")
    kind = run.information()["data"]["kind"]
    kind = "text" if corpus is not None and kind == "mixture" else kind
    extent = scope_of(scope, split, kind)
    if corpus is not None and extent.split == "train":
        raise InputError(
            "evaluate.split = 'train' is the run's own text of training; leave evaluate.corpus out."
        )
    names = choose(suites, kind, extent)
    trained = load(run, step)
    part = _part(extent, kind)
    folder = run.evaluation(trained.step) / part
    _check_writable(folder)
    prepare_data(run, trained.data, say)
    data = _other_text(corpus, trained.data, say) if corpus is not None else trained.data
    if suites is None or data.kind == "mixture":
        names = expressible(names, data, say)
    text = text_of(trained.data)
    if extent.split == "train" and text.train is None:
        raise InputError(
            "evaluate.split = 'train': the text of training streams and is not kept; leave it out."
        )
    training_length = trained.settings["row_length"]
    sizes = {
        "batch_size": batch_size or trained.settings["batch_size"],
        "row_length": row_length or training_length,
    }
    _check_size(**sizes)
    say(f"evaluating {run.path} at step {trained.step}: {', '.join(names)} ...")
    scorer = ModelScorer(trained.graphdef, trained.params)
    known = {"training_length": training_length, "training_store": None if text is None else text.train}
    with progress.showing(len(names)):
        results = measure(names, scorer, data, extent, **sizes, **known, per_token=per_token)
    for name in names:
        if name not in results:
            streams = name == "ngram_hits" and known["training_store"] is None
            why = NO_COUNTS if streams else TOO_LITTLE
            say(f"{name} was left out: {why}.")
    of = {name: {"scope": extent.name, "split": split_of(name, extent, data.kind)} for name in results}
    summaries = {name: {**result.summary(), **sizes, **of[name]} for name, result in results.items()}
    byte_models = None
    scored_text = any(isinstance(result, Perplexity) for result in results.values())
    # Byte models are counted on the text of training and score all of the validation text.
    if scored_text and text.train is not None and extent.max_tokens is None and extent.split != "train":
        byte_models, about = _byte_models(text, text_of(data))
        summaries = {
            name: {**summary, "byte_models": about} if isinstance(results[name], Perplexity) else summary
            for name, summary in summaries.items()
        }

    tokens = tokens_seen(run, trained.step)
    title = f"{run.name}, step {trained.step:,}{f', {part}' if part else ''}"
    folder.mkdir(parents=True, exist_ok=True)
    pictures = artifacts.pictures(results, title)
    for name, picture in pictures.items():
        write_whole(folder / f"{name}.png", picture)
    artifacts.write_tables(folder, results)
    artifacts.write_summary(folder, _facts(run, trained, data, tokens), summaries)
    scalars = {tag: value for result in results.values() for tag, value in result.scalars().items()}
    images = {f"eval/{name}": picture for name, picture in pictures.items()}
    events = folder if part else folder.parent
    event_file.write(events, f"{trained.step}.{'-'.join(names)}", tokens, scalars, images)
    report.show(f"{title}, after {tokens:,} tokens", report.rows(results, byte_models))
    say(f"written: {folder}")
    return folder


def _part(extent: Scope, kind: str) -> str:
    """The folder inside eval/STEP of what is not a full evaluation: its figures must not pass for those."""
    scope = "" if extent.name == FULL.name else extent.name
    split = "" if extent == scope_of(extent.name, None, kind) else extent.split
    return "_".join(filter(None, (scope, split)))


def _check_writable(folder: Path) -> None:
    """Raises InputError where the folder, or the event file beside it, could not be written."""
    for path in (folder.parent, folder):
        existing = next(parent for parent in (path, *path.parents) if os.path.lexists(parent))
        if not (existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)):
            raise InputError(f"{path} cannot be written: {existing} is read-only or no directory.")


def _check_size(batch_size: int, row_length: int) -> None:
    """Raises InputError where the rows of one batch exceed the machine's memory."""
    needed, memory = 16 * batch_size * row_length, accounting.host_memory()  # four numbers a token
    if needed > memory:
        raise InputError(
            f"evaluate.batch_size = {batch_size} rows of evaluate.row_length = {row_length} tokens take "
            f"{needed / 2**30:,.0f} GiB, and this machine has {memory / 2**30:,.0f} GiB: lower one of them."
        )


def _other_text(corpus: Corpus, trained_on: Any, say: Callable[[str], None]) -> Text:
    """Another corpus, in the tokens of the run's; refused where it holds text that the run was trained on."""
    trained_on = text_of(trained_on)
    if trained_on is None:
        raise InputError("evaluate.corpus is text, and this run was trained on no text; leave it out.")
    data = Text(corpus, trained_on.tokenizer)
    data.prepare(say=say)
    if trained_on.train is not None:
        known = np.isin(data.validation.content_keys, trained_on.train.content_keys)
        if known.any():
            raise InputError(
                f"{known.sum()} of the {len(known)} documents of evaluate.corpus are among those that the "
                "run was trained on; evaluate on other text."
            )
    return data


def _byte_models(trained_on: Text, data: Text) -> tuple[list[float], dict[str, Any]]:
    """Bits per byte of the byte models of order 0, 1, ... on the validation text, and how they were made."""
    training, size = [], 0
    for document in _documents(trained_on.train, trained_on.tokenizer):
        training.append(document)
        size += len(document)
        if size >= BYTE_MODEL_BYTES:
            break
    bits = ByteModel(training, BYTE_MODEL_ORDER).bits_per_byte(
        list(_documents(data.validation, data.tokenizer))
    )
    about = {
        "smoothing": "interpolated Witten-Bell",
        "training_bytes": size,
        "bits_per_byte": {f"order_{order}": value for order, value in enumerate(bits)},
    }
    return bits, about


def _documents(store, tokenizer):
    for index in range(len(store)):
        yield tokenizer.decode(store.document(index))


def _facts(run: RunDirectory, trained: TrainedRun, data: Any, tokens: int) -> dict[str, Any]:
    """What the figures are of: run, checkpoint, model, data, and the machine that evaluated."""
    length = trained.settings["row_length"]
    costs = accounting.model_costs(trained.model, length)
    known = run.information()
    return {
        "run": run.name,
        "step": trained.step,
        "tokens_seen": tokens,
        "model": {
            "parameters": sum(accounting.parameters_by_part(trained.params).values()),
            "dtype": trained.model.dtype,
            "length": length,
            "flops_per_token": costs.flops_per_token,
            "state_elements": costs.state_elements,
            "state_bytes": accounting.state_bytes(trained.model, length),
        },
        "provenance": {
            "config": run.config_text,
            "checkpoint": f"checkpoints/{trained.step}",
            "seed": known.get("seed"),
            "trained_on": known["data"]["fingerprint"],
            "evaluated_on": data.fingerprint,
            "training_versions": known.get("versions"),
            "evaluation_versions": {"python": platform.python_version(), "jax": jax.__version__},
            "device": f"{jax.default_backend()}, {jax.devices()[0].device_kind}",
            "time": time.time(),
        },
    }
