"""Scorers whose answers are known in advance: they prove the evaluation without any training."""

import numpy as np


class ContextFree:
    """Predicts the same distribution everywhere, whatever the context."""

    dtype = "float32"
    max_positions = None

    def __init__(self, probabilities):
        with np.errstate(divide="ignore"):
            self._log = np.log(np.asarray(probabilities, np.float64)).astype(np.float32)
        self.vocab_size = len(self._log)

    def nll(self, tokens, segment_ids, targets):
        return -self._log[targets]

    def logits(self, tokens, segment_ids, positions):
        return np.broadcast_to(self._log, (*positions.shape, self.vocab_size))

    def init_state(self, batch_size, max_length):
        return ()

    def nll_from_state(self, tokens, segment_ids, targets, state):
        return self.nll(tokens, segment_ids, targets), state


def uniform(vocab_size):
    return ContextFree(np.full(vocab_size, 1 / vocab_size))


class PreviousToken(ContextFree):
    """p(target) depends on the token before it in its window, so that a lost or foreign context shows.

    The table is random but fixed; a token without one before it (none of its segment) reads row 0.
    """

    def __init__(self, vocab_size, seed=0):
        table = np.random.default_rng(seed).normal(size=(vocab_size, vocab_size))
        self.table = (table - np.log(np.exp(table).sum(-1, keepdims=True))).astype(np.float32)
        self.vocab_size = vocab_size

    def nll(self, tokens, segment_ids, targets):
        before = np.zeros_like(tokens)
        before[:, 1:] = np.where(segment_ids[:, 1:] == segment_ids[:, :-1], tokens[:, :-1], 0)
        return -self.table[(before + 3 * tokens) % self.vocab_size, targets]


class ContextLength(ContextFree):
    """-ln p = number of tokens of its window that stand before a target: shows the context it was given."""

    def __init__(self, vocab_size):
        self.vocab_size = vocab_size

    def nll(self, tokens, segment_ids, targets):
        counts = np.zeros(tokens.shape, np.float32)
        for row, ids in enumerate(segment_ids):
            for column, segment in enumerate(ids):
                counts[row, column] = (ids[: column + 1] == segment).sum()
        return counts


class Copier:
    """Answers a query with the value that last followed it, if that value stands at most `window` tokens
    back; otherwise it is uniform over `values`.
    """

    dtype = "float32"
    max_positions = None

    def __init__(self, vocab_size, values, window=None):
        self.vocab_size, self._values, self._window = vocab_size, list(values), window

    def logits(self, tokens, segment_ids, positions):
        out = np.full((*positions.shape, self.vocab_size), -30.0, np.float32)
        for row in range(tokens.shape[0]):
            for n, position in enumerate(positions[row]):
                answer = self._answer(tokens[row], int(position))
                if answer is None:
                    out[row, n, self._values] = 0.0
                else:
                    out[row, n, answer] = 0.0
        return out

    def _answer(self, row, position):
        earlier = np.flatnonzero(row[:position] == row[position]) + 1
        # The same key may have been asked before; what stands behind it there is another query.
        places = [int(p) for p in earlier if row[p] in self._values]
        places = [p for p in places if self._window is None or position - p <= self._window]
        return row[places[-1]] if places else None


class Store:
    """A token store in memory."""

    def __init__(self, documents, document_bytes=None):
        self.tokens = np.concatenate([np.asarray(d, np.uint16) for d in documents])
        self.offsets = np.cumsum([0, *(len(d) for d in documents)])
        self.document_bytes = np.array(document_bytes or [len(d) for d in documents], np.int64)


class Ids:
    """A tokenizer with one byte a token, and an end-of-text id."""

    def __init__(self, end_id):
        self.end_id, self.vocab_size = end_id, end_id + 1

    def decode(self, ids):
        return bytes(len(ids))


class FirstBinding(Copier):
    """Answers with the value that first followed the key: stale where the key was written again."""

    def _answer(self, row, position):
        earlier = np.flatnonzero(row[:position] == row[position]) + 1
        return next((row[p] for p in earlier if row[p] in self._values), None)


class KeyValueMemory(Copier):
    """A d x d matrix that writes each pair of a row and is read by the query's key; values are decoded by the
    largest inner product. Keys are random unit vectors, drawn anew for each row; values are Gaussian.

    rule: "additive", S += k v^T, or "delta", S += k (v - S^T k)^T.
    """

    def __init__(self, vocab_size, values, rule, width=16, seed=0):
        super().__init__(vocab_size, values)
        self._rule, self._width = rule, width
        self._random = np.random.default_rng(seed)

    def logits(self, tokens, segment_ids, positions):
        batch = len(tokens)
        keys = self._random.normal(size=(batch, self.vocab_size, self._width))
        keys /= np.linalg.norm(keys, axis=-1, keepdims=True)
        vectors = self._random.normal(size=(batch, self.vocab_size, self._width))
        rows = np.arange(batch)
        state = np.zeros((batch, self._width, self._width))
        for place in range(0, int(positions.max()), 2):
            k, v = keys[rows, tokens[:, place]], vectors[rows, tokens[:, place + 1]]
            if self._rule == "delta":
                v = v - np.einsum("bk,bkv->bv", k, state)
            pair = np.einsum("bk,bv->bkv", k, v)
            state += np.where(place < positions[:, 0], 1.0, 0.0)[:, None, None] * pair
        read = np.einsum("bnk,bkv->bnv", keys[rows[:, None], tokens[rows[:, None], positions]], state)
        out = np.full((*positions.shape, self.vocab_size), -np.inf, np.float32)
        out[..., self._values] = np.einsum("bnv,bcv->bnc", read, vectors[:, self._values])
        return out
