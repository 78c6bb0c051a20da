"""What can be evaluated: whatever gives the loss of targets, and the logits at chosen positions.

A trained model is one (`model_scorer.ModelScorer`); an oracle whose answers are known in advance is another,
and proves the evaluation without any training.
"""

import itertools
from collections.abc import Iterable, Iterator
from typing import Protocol

import jax
import numpy as np

from seqmodels.errors import NonFiniteError
from seqmodels.evaluation import progress


class Scorer(Protocol):
    """Answers for a batch of rows, int32 [B, T] each; segment 0 is padding.

    One that has a state may also say how many numbers it holds: `state_elements(length)`.
    """

    vocab_size: int
    dtype: str
    max_positions: int | None

    def nll(self, tokens, segment_ids, targets):
        """[B, T] float32: -ln p(target) at every position; values at padding are not read."""

    def logits(self, tokens, segment_ids, positions):
        """[B, n, vocab] float32: logits at `positions` int32 [B, n] of each row."""


def in_flight(results: Iterable, rows: int, batch_size: int) -> Iterator:
    """(device array, rest) as (numpy array, rest), each fetched when the next one has been dispatched.

    The device works on the next batch while the host adds up the last one. rows, batch_size: how many batches
    there will be, for whoever watches.
    """
    advance = progress.begins_pass(-(-rows // batch_size))
    waiting = None
    for result in itertools.chain(results, [None]):
        if waiting is not None:
            fetched = jax.device_get(waiting[0])
            advance()
            yield fetched, waiting[1]
        waiting = result


def finite(values: np.ndarray, what: str) -> np.ndarray:
    """The values; raises NonFiniteError, which names `what` they are, where one is NaN or infinite.

    A figure of them could look like any other: NaN is the largest of logits, and no comparison holds of it.
    """
    if not np.isfinite(values).all():
        raise NonFiniteError(f"the evaluation's {what} are not finite (NaN or infinite)")
    return values


def most_likely(logits: np.ndarray) -> np.ndarray:
    """The ids [...] of the largest logits [..., vocab].

    Raises NonFiniteError where the largest is NaN or infinite; single logits may be -inf.
    """
    ids = logits.argmax(axis=-1)
    finite(np.take_along_axis(logits, ids[..., None], axis=-1), "logits")
    return ids


def nll_of_logits(logits: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """-ln p(target) [...] float32 from logits [..., vocab] float32; infinite where the target's is -inf.

    Raises NonFiniteError as `most_likely` does.
    """
    highest = finite(logits.max(axis=-1), "logits")
    log_sum = highest + np.log(np.exp(logits - highest[..., None]).sum(axis=-1))
    return log_sum - np.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]


def shared_width(needed: int, training_length: int, longest: int) -> int:
    """Tokens to pad rows of `needed` to: half the training length, doubled as needed, at most `longest`.

    Rows of few widths share their compilations; padding on the right changes nothing.
    """
    width = min(max(1, training_length // 2), longest)
    while width < needed:
        width *= 2
    return min(width, longest)
