"""Evaluation on a schedule: what `eval.py` measures, on less data, and a sample of what the model writes."""

from typing import Any

import jax
import numpy as np
from flax import nnx

from seqmodels.errors import NonFiniteError
from seqmodels.evaluation.model_scorer import ModelScorer
from seqmodels.evaluation.suites import during_training
from seqmodels.generation import generate
from seqmodels.training.recorder import Recorder
from seqmodels.training.step import TrainState

PROMPT_TOKENS = 32
SAMPLE_TOKENS = 96


class Evaluator:
    """Evaluates the state of a run, and records what it finds."""

    def __init__(
        self, graphdef: nnx.GraphDef, data: Any, recorder: Recorder, *, batch_size: int, row_length: int
    ):
        self._graphdef, self._data, self._recorder = graphdef, data, recorder
        self._batch_size, self._row_length = batch_size, row_length

    def __call__(self, step: int, state: TrainState) -> dict[str, float]:
        """The scalars of the data's suites by tag, recorded at `step`; NonFiniteError where they are none."""
        params = state.params
        if jax.process_count() > 1:  # each evaluates all of it, on a device of its own
            params = jax.tree.map(lambda leaf: leaf.addressable_data(0), params)
        scorer = ModelScorer(self._graphdef, params)
        rows = {"batch_size": self._batch_size, "row_length": self._row_length}
        try:
            values = during_training(scorer, self._data, **rows)
        except NonFiniteError as error:
            raise NonFiniteError(f"after update {step} {error}.") from None
        values = self._recorder.evaluation(step, values)
        if self._data.kind == "text":
            self._recorder.text("sample", self._sample(params), step)
        return values

    def _sample(self, params: Any) -> str:
        """The beginning of the first validation document, and the model's own continuation after a bar."""
        store, tokenizer = self._data.validation, self._data.tokenizer
        length = min(PROMPT_TOKENS, self._row_length // 2)
        prompt = [int(token) for token in np.asarray(store.tokens[: store.offsets[1]][:length])]
        room = min(SAMPLE_TOKENS, self._row_length - len(prompt))
        written = generate(
            self._graphdef, params, [prompt], max_new_tokens=room, seeds=[0], end_id=tokenizer.end_id
        ).tokens[0]
        before, after = (tokenizer.decode(ids).decode("utf-8", "replace") for ids in (prompt, written))
        return f"{before}▌{after}"
