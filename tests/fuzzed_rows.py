"""Rows of documents and padding in any arrangement, for properties that hold for all of them."""

import numpy as np
from hypothesis import strategies as st

RUN = st.tuples(st.sampled_from(("another document", "the same", "padding")), st.integers(1, 20))
FIRST_IDS = st.sampled_from((1, 100, 2**31 - 100))


@st.composite
def segment_ids(draw, rows: int, length: int) -> np.ndarray:
    """[B, T] int32: each row is made of runs, which may end it with padding, or leave it all padding."""
    ids = np.zeros((rows, length), np.int32)
    for row in ids:
        document, at = draw(FIRST_IDS), 0
        for kind, count in draw(st.lists(RUN, max_size=10)):
            document += kind == "another document"
            row[at : at + count] = 0 if kind == "padding" else document
            at += count
    return ids


def a_document(ids: np.ndarray, choice: int) -> np.ndarray:
    """[B, T] bool: the tokens of one of the documents, by a number of any size; none where all is padding."""
    named = [(row, name) for row, each in enumerate(ids) for name in dict.fromkeys(each[each != 0].tolist())]
    chosen = np.zeros(ids.shape, bool)
    if named:
        row, name = named[choice % len(named)]
        chosen[row] = ids[row] == name
    return chosen


def last_ids(ids: np.ndarray) -> np.ndarray:
    """[B]: the document of each row's last real token; 0 where a row is padding alone."""
    return np.array([row[row != 0][-1] if row.any() else 0 for row in ids])


def cut(ids: np.ndarray, place: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows before a place and from it on, with padding for the rest."""
    before = np.arange(ids.shape[1])[None, :] < place
    return np.where(before, ids, 0), np.where(before, 0, ids)
