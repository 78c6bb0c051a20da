"""Generation: every mixer continues a prompt as the whole-sequence forward says, alone and in a batch."""

from functools import partial

import jax
import numpy as np
import pytest
from flax import nnx

from seqmodels.errors import InputError
from seqmodels.generation import Sampling, _decode, _draw, _keep_likely, _keys, _prefill, generate, stream
from seqmodels.language_model import LanguageModel, build
from seqmodels.mixers import MIXERS, LinearAttention, Mamba, SoftmaxAttention

VOCABULARY = 64
PROMPTS = [[7], [3, 1], [9, 9, 2], [5, 60, 33, 8], [1, 2, 3, 4, 5, 6, 7, 8, 9]]
PATTERNS = {name: (mixer,) for name, mixer in MIXERS.items()}
PATTERNS["hybrid"] = (LinearAttention, SoftmaxAttention, Mamba)


def make(*pattern, **settings):
    """A tiny model with all parameters randomised: initial ones and zeros would hide faults."""
    graphdef, params, _ = build(
        partial(LanguageModel, width=32, depth=len(pattern), mixers=pattern, **settings), VOCABULARY
    )
    leaves, tree = jax.tree.flatten(params)
    keys = jax.random.split(jax.random.key(0), len(leaves))
    noise = [0.2 * jax.random.normal(key, leaf.shape) for key, leaf in zip(keys, leaves, strict=True)]
    return graphdef, jax.tree.unflatten(tree, noise)


# Decoding equals the whole for every mixer by its contract; generation of the rest is seen by the slow tests.
QUICK = ("LinearAttention", "CompressedAttention", "LongConvolution", "hybrid")
MODELS = [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in PATTERNS]


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return make(*PATTERNS[request.param])


@pytest.fixture(scope="module")
def linear():
    return make(LinearAttention)


def whole_forward(graphdef, params, tokens):
    """[B, T, vocab] log-probabilities, without any state."""
    forward = jax.jit(lambda params, tokens: nnx.merge(graphdef, params)(tokens)[0])
    return np.asarray(jax.nn.log_softmax(forward(params, tokens), axis=-1))


def test_greedy_is_the_argmax_of_the_whole_forward(model):
    """Wrong padding, convolution window, position or cache slot shows from the first token or from the
    second.

    The prompts are shorter than, as long as and longer than a convolution of width 4.
    """
    result = generate(*model, PROMPTS, max_new_tokens=6, temperature=0)
    rows = [prompt + new for prompt, new in zip(PROMPTS, result.tokens, strict=True)]
    tokens = np.zeros((len(rows), max(map(len, rows))), np.int32)
    for padded, row in zip(tokens, rows, strict=True):
        padded[: len(row)] = row
    expected = whole_forward(*model, tokens)
    for row, prompt, new, ln_p in zip(expected, PROMPTS, *result, strict=True):
        behind = row[len(prompt) - 1 : len(prompt) + 5]
        assert new == behind.argmax(axis=-1).tolist()
        np.testing.assert_allclose(ln_p, behind.max(axis=-1), atol=1e-4)


def test_the_rest_of_the_batch_changes_nothing(model):
    """Alone, in company, in another order: the same ids. Padding that leaks would change them."""
    settings = {"max_new_tokens": 6, "temperature": 0}
    together = generate(*model, PROMPTS, **settings)
    turned = generate(*model, PROMPTS[::-1], **settings)
    assert together.tokens == turned.tokens[::-1]
    alone = generate(*model, [PROMPTS[1]], **settings)
    assert alone.tokens[0] == together.tokens[1]
    np.testing.assert_allclose(alone.log_probabilities[0], together.log_probabilities[1], atol=1e-4)


def test_states_count_tokens_and_keep_their_types():
    """Heads (4), rows (3), slots and tokens (7) differ, so that a counter moved by the wrong one shows."""
    pattern = (partial(SoftmaxAttention, heads=4), Mamba)
    graphdef, params = make(*pattern, dtype="bfloat16")
    tokens = np.arange(21, dtype=np.int32).reshape(3, 7)
    logits, state = _prefill(graphdef, params, tokens, np.ones((3, 7), np.int32), capacity=16)
    kinds = [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(state)]
    assert logits.shape == (3, VOCABULARY)
    assert state.position.tolist() == [7, 7, 7]
    live = np.array([1, 0, 1], np.int32)
    logits, state = _decode(graphdef, params, tokens[:, 0], live, state)
    assert logits.shape == (3, VOCABULARY)
    assert state.position.tolist() == [8, 7, 8]
    assert [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(state)] == kinds


def test_stream_gives_the_same_tokens_one_by_one(linear):
    """Two loops that sample differently would make an interactive session irreproducible."""
    settings = {"max_new_tokens": 6, "temperature": 0.8, "top_k": 20, "top_p": 0.9}
    whole = generate(*linear, [PROMPTS[2]], seeds=[11], **settings).tokens[0]
    assert list(stream(*linear, PROMPTS[2], seed=11, **settings)) == whole
    stopped = list(stream(*linear, PROMPTS[2], seed=11, end_id=whole[3], **settings))
    assert stopped == whole[: whole.index(whole[3])]


def test_seeds_decide(linear):
    """One seed gives one text, wherever its row stands; another seed gives another."""
    settings = {"max_new_tokens": 12, "temperature": 2.0}
    first = generate(*linear, [PROMPTS[0]] * 3, seeds=[3, 3, 4], **settings).tokens
    assert first[0] == first[1] != first[2]
    assert generate(*linear, [PROMPTS[0]] * 3, seeds=[4, 9, 3], **settings).tokens[::2] == first[:0:-1]


def test_a_row_stops_at_the_end_id(linear):
    """Stopped rows report their end and nothing behind it; the others are not touched by it."""
    free = generate(*linear, PROMPTS, max_new_tokens=6, temperature=0).tokens
    end = free[0][2]
    stopped = generate(*linear, PROMPTS, max_new_tokens=6, temperature=0, end_id=end)
    for row, whole, ln_p in zip(stopped.tokens, free, stopped.log_probabilities, strict=True):
        expected = whole[: whole.index(end) + 1] if end in whole else whole
        assert row == expected
        assert len(ln_p) == len(expected)


def test_empty_prompt_begins_a_document(linear):
    """An empty prompt must not crash, nor start from a token that the model never saw first."""
    settings = {"max_new_tokens": 6, "temperature": 0, "end_id": 63}
    assert generate(*linear, [[]], **settings) == generate(*linear, [[63]], **settings)
    with pytest.raises(InputError, match="prompt 0 is empty"):
        generate(*linear, [[]], max_new_tokens=4)


LOGITS = np.log(np.array([[0.4, 0.3, 0.2, 0.06, 0.04], [0.02, 0.08, 0.5, 0.2, 0.2]], np.float32))


def support(count=400, **settings):
    """Which tokens are ever drawn from each row of LOGITS."""
    sampling = Sampling(**settings)
    draw = jax.jit(lambda i: _draw(LOGITS, _keys([1, 2]), i, sampling=sampling)[0])
    drawn = np.array([draw(np.int32(i)) for i in range(count)])
    return [set(column.tolist()) for column in drawn.T], drawn


def test_top_k_top_p_and_vocabulary_leave_out_what_they_say():
    """A filter that keeps one token too many, or too few, samples from another distribution."""
    assert support()[0] == [{0, 1, 2, 3, 4}] * 2
    assert support(top_k=2)[0] == [{0, 1}, {2, 3}]  # of equals at the k-th place the lower id
    assert support(top_k=1000)[0] == [{0, 1, 2, 3, 4}] * 2
    assert support(top_p=0.69)[0] == [{0, 1}, {2, 3}]
    assert support(top_p=0.1)[0] == [{0}, {2}]
    assert support(top_k=4, top_p=0.75)[0] == [{0, 1, 2}, {2, 3, 4}]  # the share is one of the four
    assert support(vocab_size=3)[0] == [{0, 1, 2}] * 2


@pytest.mark.parametrize("settings", [{"top_k": 1}, {"top_p": 1e-9}, {"top_k": 3, "top_p": 1e-9}])
def test_one_token_is_left_of_equals(settings):
    """All of them would stay where a filter compares logits with that of the last token it keeps."""
    likely = np.asarray(_keep_likely(np.zeros((2, 5), np.float32), Sampling(**settings)))
    np.testing.assert_array_equal(likely, [[0, *[-np.inf] * 4]] * 2)


def test_sampled_frequencies_follow_the_temperature():
    """At temperature 1/2 probabilities are squared and normalised again."""
    squared = np.exp(2 * LOGITS[0])
    drawn = support(count=2000, temperature=0.5)[1][:, 0]
    observed = np.bincount(drawn, minlength=5) / 2000
    np.testing.assert_allclose(observed, squared / squared.sum(), atol=4 * np.sqrt(0.25 / 2000))


@pytest.mark.parametrize("top_p", [None, 0.9])
def test_temperature_zero_is_the_argmax(top_p):
    """No division by zero, no draw: whatever the seed, and with top_p set too."""
    token, ln_p = _draw(LOGITS, _keys([3, 4]), np.int32(0), sampling=Sampling(temperature=0.0, top_p=top_p))
    np.testing.assert_array_equal(token, [0, 2])
    np.testing.assert_allclose(ln_p, np.log([0.4, 0.5]), atol=1e-6)


@pytest.mark.parametrize("temperature", [1e-30, 1e-38, 1e-44, 1e-320])
def test_a_temperature_of_nearly_zero_is_the_argmax(temperature):
    """Logits over it overflow at more than one token, or are 0 / 0."""
    logits = np.array([[1, 5, 9, -3], [-8, -7, -9, -7.5]], np.float32)
    sampling = Sampling(temperature, vocab_size=3)
    for seed in range(3):
        token, _ = _draw(logits, _keys([seed, seed + 1]), np.int32(0), sampling=sampling)
        np.testing.assert_array_equal(token, [2, 1])


def test_an_endless_temperature_leaves_ids_beyond_the_vocabulary_out():
    """-inf / inf, of a temperature that float32 does not hold, is a NaN, which is drawn before all else."""
    assert support(count=100, temperature=1e200, vocab_size=3)[0] == [{0, 1, 2}] * 2


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"temperature": -1.0}, "temperature is -1.0"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_k": 0}, "top_k is 0"),
        ({"top_p": 0.0}, "top_p is 0.0"),
        ({"top_p": 1.5}, "top_p is 1.5"),
        ({"max_new_tokens": 0}, "max_new_tokens is 0"),
        ({"max_new_tokens": 10**12}, "prompt and new tokens may be"),
        ({"seeds": [1, 2]}, "2 seeds for 1 prompts"),
        ({"seeds": [-1]}, "seed -1 is out of range"),
        ({"vocab_size": 65}, "the tokenizer has 65 ids and the model 64"),
        ({"vocab_size": 5}, "token id 7"),
        ({"temperature": "warm"}, "temperature is 'warm'; it must be 0"),
        ({"top_k": 2.5}, r"top_k is 2\.5; it must be a whole number"),
        ({"top_k": True}, "top_k is True; it must be a whole number"),
        ({"top_p": "most"}, "top_p is 'most'"),
        ({"max_new_tokens": 2.5}, r"max_new_tokens is 2\.5; it must be a whole number"),
        ({"seeds": [1.5]}, r"seed 1\.5 is out of range: a whole number"),
        ({"end_id": 64}, "end_id is 64; ids lie between 0 and 63"),
        ({"end_id": 8, "vocab_size": 8}, "end_id is 8; ids lie between 0 and 7"),
        ({"end_id": -1}, "end_id is -1"),
        ({"end_id": 1.0}, r"end_id is 1\.0"),
        ({"vocab_size": 8.0}, r"the tokenizer has 8\.0 ids"),
    ],
)
def test_settings_without_meaning_are_refused(linear, settings, message):
    """Each would otherwise give text of another distribution, or a traceback from inside a kernel."""
    with pytest.raises(InputError, match=message):
        generate(*linear, [[7]], **{"max_new_tokens": 4, **settings})


@pytest.mark.parametrize("prompt", [[1.7], [True], ["a"], [None], [[1, 2]], 5, "text"])
def test_what_is_no_list_of_token_ids_is_refused(linear, prompt):
    """Cut to whole numbers or flattened, it would be continued as another prompt."""
    with pytest.raises(InputError, match=r"prompt 1 is .*; it must be a list of token ids, integers"):
        generate(*linear, [[7], prompt], max_new_tokens=4)


def test_a_cache_beyond_the_memory_is_refused():
    """Allocating it would take the machine down with the run that samples."""
    with pytest.raises(InputError, match=r"max_new_tokens is 1000000000; .* GiB: generate less"):
        generate(*make(SoftmaxAttention), [[7]], max_new_tokens=10**9)


def test_more_positions_than_the_model_has_are_refused():
    """Learned positions end; compiled code would give NaN, and greedy decoding token 0 for ever."""
    learned = make(LinearAttention, positions="learned", max_positions=12)
    with pytest.raises(
        InputError, match="prompt of 9 tokens and 5 new ones need 13 positions, and the model has 12"
    ):
        generate(*learned, [PROMPTS[4]], max_new_tokens=5)
    assert len(generate(*learned, [PROMPTS[4]], max_new_tokens=4, temperature=0).tokens[0]) == 4


def test_no_implicit_transfers(linear):
    """A training run samples under this guard; an implicit transfer would end it."""
    graphdef, params = linear
    with jax.transfer_guard("disallow"):
        generate(graphdef, params, PROMPTS, max_new_tokens=6, temperature=0, seeds=[5, 4, 3, 2, 1])


def test_batch_sizes_in_one_process_under_bfloat16():
    """A state that kept the size of an earlier batch, or changed dtype between steps, fails here."""
    low = make(LinearAttention, dtype="bfloat16")
    four = generate(*low, PROMPTS[:4], max_new_tokens=3, temperature=0).tokens
    assert generate(*low, PROMPTS[:1], max_new_tokens=3, temperature=0).tokens == four[:1]
    assert generate(*low, PROMPTS[:3], max_new_tokens=3, temperature=0).tokens == four[:3]
