"""A tiny model, its optimizer and its batches, for tests of the step."""

from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from seqmodels.language_model import LanguageModel, build
from seqmodels.training.norms import kinds_of_layers
from seqmodels.training.optimizers import AdamW, Optimizer
from seqmodels.training.step import TrainState, initial_state, make_dials, make_step

VOCABULARY = 61


class Tiny(NamedTuple):
    """A compiled step and what it starts from."""

    step: jax.stages.Wrapped
    state: TrainState
    graphdef: object
    kinds: dict


def tiny(
    optimizer: Optimizer | None = None,
    *,
    steps: int = 8,
    seed: int = 0,
    skip_nonfinite: bool = False,
    **model,
) -> Tiny:
    """A model of one layer and width 32, unless said otherwise; the step is jitted, its state not donated."""
    model = {"width": 32, "depth": 1, **model}
    graphdef, params, decays = build(partial(LanguageModel, **model), VOCABULARY, seed)
    optimizer = optimizer or AdamW()
    kinds = kinds_of_layers(graphdef, params)
    update_at = partial(optimizer.build, decays, steps)
    step = make_step(graphdef, kinds, update_at, skip_nonfinite=skip_nonfinite)
    step = partial(step, dials=make_dials(seed, optimizer.learning_rate))
    return Tiny(jax.jit(step), initial_state(params, optimizer.build(decays, steps)), graphdef, kinds)


def random_batch(rows: int, length: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Rows of random tokens, one document each, all of them targets."""
    random = np.random.default_rng(seed)
    tokens = random.integers(0, VOCABULARY, (rows, length + 1)).astype(np.int32)
    return {
        "tokens": tokens[:, :-1],
        "targets": tokens[:, 1:],
        "segment_ids": np.ones((rows, length), np.int32),
        "loss_weights": np.ones((rows, length), np.float32),
    }


def in_micro_batches(batch: dict[str, np.ndarray], count: int) -> dict[str, np.ndarray]:
    """[B, ...] -> [count, B / count, ...]."""
    return {name: rows.reshape(count, -1, *rows.shape[1:]) for name, rows in batch.items()}
