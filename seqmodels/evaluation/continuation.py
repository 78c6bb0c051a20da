"""The likelihood of a continuation: its own tokens are scored, each after the prompt and those before it."""

from collections.abc import Sequence

import numpy as np

from seqmodels.errors import InputError


def continuation_nll(
    scorer, prompt: Sequence[int], continuation: Sequence[int], *, start_id: int | None = None
) -> np.ndarray:
    """Nats of each token of the continuation given all before it, float32 [len(continuation)].

    start_id: stands before the prompt, which may then be empty; the end-of-text id is what a document of
    training begins with. Neither it nor the prompt is scored, so that the sums over prompt and continuation,
    less those over the prompt, are those of the continuation.

    Raises InputError where nothing stands before the first token, or an id is outside the vocabulary.
    """
    prompt, continuation = (np.asarray(ids, np.int32).reshape(-1) for ids in (prompt, continuation))
    start = np.zeros(0, np.int32) if start_id is None else np.array([start_id], np.int32)
    whole = np.concatenate([start, prompt, continuation])
    behind = len(whole) - len(continuation)
    if len(continuation) and not behind:
        raise InputError("nothing stands before the continuation: give a prompt or a start_id.")
    wrong = whole[(whole < 0) | (whole >= scorer.vocab_size)]
    if wrong.size:
        raise InputError(f"token id {wrong[0]} is outside the model's vocabulary of {scorer.vocab_size} ids.")
    if len(continuation) == 0:
        return np.zeros(0, np.float32)
    inputs = len(whole) - 1
    # Lengths share few compilations; padding on the right changes nothing.
    width = max(16, 1 << (inputs - 1).bit_length())
    if scorer.max_positions is not None:
        width = max(inputs, min(width, scorer.max_positions))
    tokens, segments, targets = np.zeros((3, 1, width), np.int32)
    tokens[0, :inputs], segments[0, :inputs], targets[0, :inputs] = whole[:-1], 1, whole[1:]
    return np.asarray(scorer.nll(tokens, segments, targets))[0, behind - 1 : inputs]
