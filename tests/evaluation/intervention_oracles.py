"""A task to intervene in, its rows, and scorers with a state whose answers are known in advance."""

import itertools
from typing import NamedTuple

import numpy as np

from seqmodels.data.tasks.recall_at_distance import RecallAtDistance
from seqmodels.evaluation.row_interventions import Rows
from tests.evaluation.oracles import ContextFree

TASK = RecallAtDistance(
    pairs=(2, 4), fillers=(0, 3, 7), queries_per_row=3, keys=10, values=32, filler_tokens=8
)


class Layer(NamedTuple):
    """memory [B, keys, values] float32: 1 where a key was last written with a value."""

    memory: np.ndarray
    last_id: np.ndarray


class State(NamedTuple):
    layers: tuple[Layer, ...]


class PerfectMemory:
    """Remembers every pair, in layer 0 of two; of a key that it does not know it says a random value."""

    dtype = "float32"
    max_positions = None

    def __init__(self, task):
        self._task, self.vocab_size = task, task.vocab_size
        self._random = np.random.default_rng(0)

    def init_state(self, batch_size, max_length):
        return State(tuple(Layer(self._empty(batch_size), np.zeros(batch_size, np.int32)) for _ in range(2)))

    def _empty(self, batch_size):
        return np.zeros((batch_size, self._task.keys, self._task.values), np.float32)

    def state_after(self, tokens, segment_ids, state=None):
        state = self.init_state(*tokens.shape) if state is None else state
        memory = np.array(state.layers[0].memory)
        for row, (ids, segments) in enumerate(zip(tokens, segment_ids, strict=True)):
            real = ids[segments != 0]
            for key, value in itertools.pairwise(real):
                if key in self._task.key_ids and value in self._task.value_ids:
                    memory[row, key - self._task.key_ids.start] = 0
                    memory[row, key - self._task.key_ids.start, value - self._task.value_ids.start] = 1
        return State((Layer(memory, np.ones(len(tokens), np.int32)), state.layers[1]))

    def logits_from_state(self, tokens, segment_ids, positions, state):
        memory = self.state_after(tokens, segment_ids, state).layers[0].memory
        out = np.zeros((*positions.shape, self.vocab_size), np.float32)
        for row, places in enumerate(positions):
            for query, place in enumerate(places):
                known = memory[row, tokens[row, place] - self._task.key_ids.start]
                guess = self._random.random(self._task.values) * 0.1 * (known.max() == 0)
                out[row, query, self._task.value_ids.start :] = known + guess
        return out

    def logits(self, tokens, segment_ids, positions):
        return self.logits_from_state(tokens, segment_ids, positions, self.init_state(*tokens.shape))


class Blind(ContextFree):
    """Says the same value whatever it reads; its state is of two layers that it does not read."""

    def init_state(self, batch_size, max_length):
        empty = Layer(np.zeros((batch_size, 1), np.float32), np.zeros(batch_size, np.int32))
        return State((empty, empty))

    def state_after(self, tokens, segment_ids, state=None):
        return state

    def logits_from_state(self, tokens, segment_ids, positions, state):
        return self.logits(tokens, segment_ids, positions)


def rows(count=50):
    made = TASK.rows("test", 0, count, pairs=4, fillers=3, queries_per_row=1)
    target = 3 - made.metadata["interference"][:, 0]
    alphabets = TASK.key_ids, TASK.value_ids, TASK.filler_ids
    return Rows(made.batch["tokens"], 4, target, *alphabets)
