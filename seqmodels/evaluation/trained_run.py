"""A trained model with its data, from a run directory and nothing else."""

from collections.abc import Callable
from typing import Any, NamedTuple

import gin
import jax
from flax import nnx

from seqmodels.data.text import text_of
from seqmodels.errors import InputError
from seqmodels.language_model import LanguageModel, ModelClass, abstract
from seqmodels.training.checkpoints import restore_params
from seqmodels.training.run_directory import RunDirectory


class TrainedRun(NamedTuple):
    """step: of the checkpoint. settings: what the config binds of `train`. data: its tokenizer is ready, and
    nothing else before `prepare_data`.
    """

    step: int
    graphdef: nnx.GraphDef
    params: Any
    data: Any
    settings: dict[str, Any]

    @property
    def model(self) -> LanguageModel:
        return nnx.merge(self.graphdef, self.params)


def load(run: RunDirectory, step: int | str) -> TrainedRun:
    """The checkpoint `step` ("latest", "best" or a number) of a run whose config has been loaded.

    Raises InputError where the checkpoint or the tokenizer is missing or damaged, or the tokenizer is another
    than the run was trained with.
    """
    settings = gin.get_bindings("train")
    known = run.information()
    graphdef, shapes, _ = abstract(settings["model"], known["vocab_size"])
    step, params = restore_params(run, step, shapes)
    if nnx.merge(graphdef, shapes).dtype == "float32":
        # GPUs and TPUs round the inputs of products otherwise.
        jax.config.update("jax_default_matmul_precision", "highest")
    data = settings["data"]
    text = text_of(data)
    if text is not None:
        text.tokenizer.restore(run.tokenizer)
        trained_with = known.get("tokenizer")  # runs of before it was recorded have none
        if trained_with not in (None, text.tokenizer.fingerprint):
            raise InputError(
                f"{run.tokenizer} holds another tokenizer than the run was trained with: its fingerprint was "
                f"{trained_with} and is now {text.tokenizer.fingerprint}; restore it."
            )
    return TrainedRun(step, graphdef, params, data, settings)


def prepare_data(run: RunDirectory, data: Any, say: Callable[[str], None]) -> None:
    """Makes the data of the run ready; InputError unless it is what the run was trained on."""
    data.prepare(say=say)
    trained_on = run.information()["data"]["fingerprint"]
    if data.fingerprint != trained_on:
        raise InputError(
            f"{run.path} was trained on other data: their fingerprint was {trained_on} and is now "
            f"{data.fingerprint}; restore the data that its config names."
        )


def abstract_model(model_class: ModelClass, vocab_size: int) -> LanguageModel:
    """The model with shapes in place of parameters."""
    graphdef, shapes, _ = abstract(model_class, vocab_size)
    return nnx.merge(graphdef, shapes)


def tokens_seen(run: RunDirectory, step: int) -> int:
    """Tokens trained on after `step` updates: as logged, or in proportion to the nearest line before it."""
    lines = [line for line in run.metrics() if 0 < line["step"] <= step]
    if not lines:
        return 0
    nearest = max(lines, key=lambda line: line["step"])
    return round(nearest["tokens"] * step / nearest["step"])
