"""Eight rows of 24 tokens with every arrangement of documents and padding that the contract speaks of."""

import numpy as np

from tests.mixers.subjects import WIDTH, normal

LENGTH = 24
# Each row as runs (id, number of tokens); 0 is padding. Chunks hold 16, so borders fall in and on them.
RUNS = (
    ((1, 24),),
    ((7, 5), (3, 6), (9, 13)),
    ((2, 1), (5, 1), (1, 1), (4, 21)),
    ((0, 4), (6, 20)),
    ((3, 10), (0, 14)),
    ((8, 2), (0, 2), (8, 7), (0, 3), (8, 6), (0, 1), (2, 3)),
    ((1, 15), (2, 1), (3, 8)),
    ((0, 24),),
)
SEGMENT_IDS = np.array([[i for i, count in runs for _ in range(count)] for runs in RUNS], np.int32)
ROWS = len(RUNS)
X = np.asarray(normal(ROWS, LENGTH, WIDTH))


def documents():
    """[(row, id, the places of its tokens in the row)] for every document of every row."""
    return [
        (row, int(i), np.flatnonzero(ids == i))
        for row, ids in enumerate(SEGMENT_IDS)
        for i in dict.fromkeys(ids[ids != 0])
    ]


def alone(values=X):
    """(x, ids, documents) batches of 8 rows with one document each, from place 0 on, and padding after it."""
    found = documents()
    for first in range(0, len(found), ROWS):
        batch = found[first : first + ROWS]
        x = np.zeros((ROWS, LENGTH, values.shape[-1]), np.float32)
        ids = np.zeros((ROWS, LENGTH), np.int32)
        for target, (row, i, places) in enumerate(batch):
            x[target, : len(places)] = values[row, places]
            ids[target, : len(places)] = i
        yield x, ids, batch
