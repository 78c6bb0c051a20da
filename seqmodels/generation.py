"""Sampling from a model: the prompts in one call, then one token at a time from the state.

Prompts of different lengths stand in one batch, padded on the left. A row's tokens depend on its own prompt
and its own seed, never on the other rows. A row that has drawn the end-of-text id is fed padding from then
on.
"""

from collections.abc import Iterator
from functools import partial
from numbers import Integral, Real
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from seqmodels.accounting import device_memory, state_bytes
from seqmodels.errors import InputError

# Prompts are padded to a multiple of this, so that prompts of similar length share a compilation.
_PROMPT_MULTIPLE = 32

MAX_LENGTH = 2**31 - 1 - _PROMPT_MULTIPLE  # positions are int32


class Generation(NamedTuple):
    """One list a prompt: the new token ids, the end-of-text id included where it was drawn, and for each ln p
    under the model itself, before temperature, top_k and top_p.
    """

    tokens: list[list[int]]
    log_probabilities: list[list[float]]


class Sampling(NamedTuple):
    """How the next token is drawn; hashable, since each way compiles to another program.

    temperature: 0 takes the most likely token. top_k: only among the k most likely. top_p: only among the
    most likely that together reach this probability (Holtzman et al. 2020). Of tokens that are equally
    likely the lower ids come first. vocab_size: only ids below it.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None
    vocab_size: int | None = None

    def check(self) -> None:
        """Raises InputError for settings that have no meaning."""
        if not isinstance(self.temperature, Real) or not 0 <= self.temperature < float("inf"):
            raise InputError(
                f"temperature is {self.temperature!r}; it must be 0 (the most likely token) or above."
            )
        if self.top_k is not None and not (_is_whole(self.top_k) and self.top_k >= 1):
            raise InputError(
                f"top_k is {self.top_k!r}; it must be a whole number from 1, or left out for all tokens."
            )
        if self.top_p is not None and not (isinstance(self.top_p, Real) and 0 < self.top_p <= 1):
            raise InputError(f"top_p is {self.top_p!r}; it must be above 0 and at most 1.")


def _is_whole(value) -> bool:
    """Whether it is an integer, Python's or numpy's; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def generate(
    graphdef,
    params,
    prompts: list[list[int]],
    *,
    max_new_tokens: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seeds: list[int] | None = None,
    end_id: int | None = None,
    vocab_size: int | None = None,
) -> Generation:
    """Continues each prompt by up to max_new_tokens tokens, or until end_id is drawn.

    graphdef, params: as `language_model.build` gives them. prompts: token ids; an empty one becomes [end_id],
    the start of a document. seeds: one a prompt, by default 0, 1, 2, ... vocab_size: the tokenizer's, where
    the model's is larger: ids beyond it are never drawn. Sampling: see `Sampling`. Raises InputError for
    settings or prompts that cannot be, before compiling anything.
    """
    sampling = Sampling(temperature, top_k, top_p, vocab_size)
    seeds = list(range(len(prompts))) if seeds is None else seeds
    tokens, segment_ids, capacity = _prepare(
        graphdef, params, prompts, sampling, max_new_tokens, seeds, end_id
    )
    drawn, log_probabilities, count = jax.device_get(
        _generate(
            graphdef,
            params,
            tokens,
            segment_ids,
            _keys(seeds),
            jax.device_put(np.int32(-1 if end_id is None else end_id)),
            sampling=sampling,
            capacity=capacity,
            max_new_tokens=max_new_tokens,
        )
    )
    return Generation(
        [row[:n].tolist() for row, n in zip(drawn, count, strict=True)],
        [row[:n].tolist() for row, n in zip(log_probabilities, count, strict=True)],
    )


def stream(
    graphdef,
    params,
    prompt: list[int],
    *,
    max_new_tokens: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
    end_id: int | None = None,
    vocab_size: int | None = None,
) -> Iterator[int]:
    """The tokens of `generate` for one prompt, as they are drawn; end_id ends them and is not given."""
    sampling = Sampling(temperature, top_k, top_p, vocab_size)
    prepared = _prepare(graphdef, params, [prompt], sampling, max_new_tokens, [seed], end_id)

    def draw():
        tokens, segment_ids, capacity = prepared
        keys = _keys([seed])
        logits, state = _prefill(graphdef, params, tokens, segment_ids, capacity=capacity)
        for index in range(max_new_tokens):
            token, _ = _draw(logits, keys, np.int32(index), sampling=sampling)
            if int(token[0]) == end_id:
                return
            yield int(token[0])
            if index + 1 < max_new_tokens:
                logits, state = _decode(graphdef, params, token, np.ones(1, np.int32), state)

    return draw()


def _prepare(graphdef, params, prompts, sampling: Sampling, max_new_tokens: int, seeds: list[int], end_id):
    """(tokens, segment_ids [B, P] padded on the left, cache capacity), after all that can be checked was."""
    sampling.check()
    model = nnx.merge(graphdef, params)
    if not _is_whole(max_new_tokens) or max_new_tokens < 1:
        raise InputError(f"max_new_tokens is {max_new_tokens!r}; it must be a whole number from 1.")
    if len(prompts) == 0:
        raise InputError("there is no prompt to continue; give at least one, which may be empty.")
    if len(seeds) != len(prompts):
        raise InputError(f"there are {len(seeds)} seeds for {len(prompts)} prompts; give one a prompt.")
    known = model.vocab_size if sampling.vocab_size is None else sampling.vocab_size
    if not _is_whole(known) or not 1 <= known <= model.vocab_size:
        raise InputError(
            f"the tokenizer has {known!r} ids and the model {model.vocab_size}; generate with the tokenizer "
            "that the model was trained with."
        )
    if end_id is not None and not (_is_whole(end_id) and 0 <= end_id < known):
        raise InputError(f"end_id is {end_id!r}; ids lie between 0 and {known - 1}.")
    for seed in seeds:
        if not _is_whole(seed) or not 0 <= seed < 2**32:
            raise InputError(f"seed {seed!r} is out of range: a whole number from 0 to {2**32 - 1}.")
    rows = [_row(index, prompt, end_id, known) for index, prompt in enumerate(prompts)]
    longest = max(len(row) for row in rows)
    if longest + max_new_tokens > MAX_LENGTH:
        raise InputError(
            f"max_new_tokens is {max_new_tokens}; prompt and new tokens may be {MAX_LENGTH} in all."
        )
    if model.max_positions is not None and longest + max_new_tokens - 1 > model.max_positions:
        raise InputError(
            f"a prompt of {longest} tokens and {max_new_tokens} new ones need {longest + max_new_tokens - 1} "
            f"positions, and the model has {model.max_positions}: shorten the prompt or generate less."
        )
    width = -(-longest // _PROMPT_MULTIPLE) * _PROMPT_MULTIPLE
    _check_memory(model, len(rows), width + max_new_tokens, max_new_tokens)
    tokens, segment_ids = (np.zeros((len(rows), width), np.int32) for _ in range(2))
    for padded, ids, row in zip(tokens, segment_ids, rows, strict=True):
        padded[width - len(row) :] = row
        ids[width - len(row) :] = 1
    tokens, segment_ids = jax.device_put((tokens, segment_ids))
    return tokens, segment_ids, width + max_new_tokens


def _row(index: int, prompt, end_id: int | None, known: int) -> np.ndarray:
    """The prompt as token ids; InputError where it holds anything but ids below `known`."""
    row = np.asarray(prompt)
    if row.size == 0:
        if end_id is None:
            raise InputError(f"prompt {index} is empty and there is no end_id to start a document with.")
        return np.array([end_id])
    if row.ndim != 1 or not np.issubdtype(row.dtype, np.integer):
        raise InputError(
            f"prompt {index} is {row.dtype} of shape {row.shape}; it must be a list of token ids, integers."
        )
    if row.min() < 0 or row.max() >= known:
        wrong = row[(row < 0) | (row >= known)][0]
        raise InputError(f"prompt {index} holds token id {wrong}; ids lie between 0 and {known - 1}.")
    return row


def _check_memory(model, rows: int, capacity: int, max_new_tokens: int) -> None:
    """Raises InputError where the states of all rows cannot stand in the memory of the device."""
    needed = state_bytes(model, capacity, rows)
    memory = device_memory()
    if needed > memory:
        raise InputError(
            f"max_new_tokens is {max_new_tokens}; with it the state of {rows} rows takes "
            f"{needed / 2**30:,.1f} GiB, and there are {memory / 2**30:,.1f} GiB: generate less."
        )


def _keys(seeds: list[int]) -> jax.Array:
    """[B] random keys, one a row."""
    return _make_keys(jax.device_put(np.asarray(seeds, np.uint32)))


_make_keys = jax.jit(jax.vmap(jax.random.key))


@partial(jax.jit, static_argnames=("graphdef", "capacity"))
def _prefill(graphdef, params, tokens, segment_ids, *, capacity: int):
    """(logits [B, vocab] behind the last token, state); padding on the left, so that the last is real."""
    model = nnx.merge(graphdef, params)
    state = model.init_state(tokens.shape[0], capacity)
    features, state = model.features(tokens, segment_ids=segment_ids, state=state)
    return model.head(features[:, -1:])[:, 0], state


@partial(jax.jit, static_argnames="graphdef", donate_argnames="state")
def _decode(graphdef, params, token, segment_ids, state):
    """(logits [B, vocab], state) after one more token [B]; a row of segment 0 is left as it is."""
    model = nnx.merge(graphdef, params)
    logits, state = model(token[:, None], segment_ids=segment_ids[:, None], state=state)
    return logits[:, 0], state


@partial(jax.jit, static_argnames="sampling")
def _draw(logits, keys, index, *, sampling: Sampling):
    """(token [B], its ln p [B]) from logits [B, vocab], drawn by each row's own key and the token's index."""
    if sampling.vocab_size is not None:
        beyond = jnp.arange(logits.shape[-1]) >= sampling.vocab_size
        logits = jnp.where(beyond[None, :], -jnp.inf, logits)
    if sampling.temperature == 0:
        token = logits.argmax(axis=-1).astype(jnp.int32)
    else:
        drawn = jax.vmap(jax.random.fold_in, (0, None))(keys, index)
        # From the highest logit down, so that no quotient overflows but of the unlikely, to -inf. The bounds
        # are temperatures that float32 holds with their reciprocals.
        temperature = float(min(max(sampling.temperature, 1e-37), 1e37))
        likely = _keep_likely((logits - logits.max(axis=-1, keepdims=True)) / temperature, sampling)
        token = jax.vmap(jax.random.categorical)(drawn, likely).astype(jnp.int32)
    log_probabilities = jax.nn.log_softmax(logits, axis=-1)
    return token, jnp.take_along_axis(log_probabilities, token[:, None], axis=-1)[:, 0]


def _keep_likely(logits, sampling: Sampling):
    """Logits with -inf where top_k and top_p leave a token out; the most likely one always stays."""
    vocab_size = logits.shape[-1]
    count = vocab_size if sampling.top_k is None else min(sampling.top_k, vocab_size)
    share = 1.0 if sampling.top_p is None else float(sampling.top_p)
    if count == vocab_size and share == 1:
        return logits
    likely, tokens = jax.lax.top_k(logits, count)  # of equal ones the lower id first
    if share < 1:
        probabilities = jax.nn.softmax(likely, axis=-1)
        before = jnp.cumsum(probabilities, axis=-1) - probabilities
        likely = jnp.where(before < share, likely, -jnp.inf)
    rows = jnp.arange(logits.shape[0])[:, None]
    return jnp.full_like(logits, -jnp.inf).at[rows, tokens].set(likely)


@partial(jax.jit, static_argnames=("graphdef", "sampling", "capacity", "max_new_tokens"))
def _generate(graphdef, params, tokens, segment_ids, keys, end_id, *, sampling, capacity, max_new_tokens):
    """(tokens [B, N] int32, ln p [B, N], how many of them each row has [B])."""
    batch = tokens.shape[0]
    logits, state = _prefill(graphdef, params, tokens, segment_ids, capacity=capacity)

    def unfinished(carry):
        index, live, *_ = carry
        return (index < max_new_tokens) & live.any()

    def step(carry):
        index, live, logits, state, drawn, log_probabilities, count = carry
        token, log_probability = _draw(logits, keys, index, sampling=sampling)
        drawn = drawn.at[:, index].set(token)
        log_probabilities = log_probabilities.at[:, index].set(log_probability)
        count = count + live.astype(jnp.int32)
        live = live & (token != end_id)
        logits, state = _decode(graphdef, params, token, live.astype(jnp.int32), state)
        return index + 1, live, logits, state, drawn, log_probabilities, count

    empty = jnp.zeros((batch, max_new_tokens), jnp.int32)
    live = jnp.ones(batch, bool)
    carry = (jnp.int32(0), live, logits, state, empty, empty.astype(jnp.float32), jnp.zeros(batch, jnp.int32))
    *_, drawn, log_probabilities, count = jax.lax.while_loop(unfinished, step, carry)
    return drawn, log_probabilities, count
