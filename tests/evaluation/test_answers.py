"""What counts as an answer of which kind, and that the queries asked are those of the rows requested."""

import numpy as np

from seqmodels.data.tasks.recall_at_distance import RecallAtDistance
from seqmodels.evaluation.answers import ANSWER_KINDS, Request, ask, judge
from tests.evaluation.oracles import Copier

TASK = RecallAtDistance(pairs=4, fillers=(0, 3), queries_per_row=3, keys=40, values=32, filler_tokens=8)


def test_kinds_of_answers():
    """A binding error must not count as a wrong value, nor a repeated value twice in the rank."""
    logits = np.zeros((1, 4, 10), np.float32)
    for query, predicted in enumerate((7, 8, 9, 2)):
        logits[0, query, predicted] = 1.0
    answer = np.full((1, 4), 7)
    judged = judge(logits, answer, np.array([[8, 7, 8, -1]]), range(6, 10))
    kinds = [ANSWER_KINDS[kind] for kind in judged["kind"][0]]
    assert kinds == ["right", "another value of the row", "a value not in the row", "no value"]
    np.testing.assert_array_equal(judged["rank"], [[1, 2, 1.5, 1.5]])


def test_equal_logits_share_their_ranks():
    """A model that knows nothing would rank every answer first; it is at chance, and a perfect one at 1."""
    in_row, answer = np.array([[8, 7, 8, 6, -1]]), np.array([[7, 7, 7, 9]])
    logits = np.zeros((1, 4, 10), np.float32)
    logits[0, 1, 7] = 1.0
    logits[0, 2, 6] = 1.0
    judged = judge(logits, answer, in_row, range(6, 10))
    # Three values: all alike; the answer alone on top; second and third alike. An answer from outside the
    # row stands among them.
    np.testing.assert_array_equal(judged["rank"], [[2, 1, 2.5, 2.5]])


def test_a_stale_answer_is_no_binding_error():
    """The value that the key had before is in the row too; and where it had none, -1 must match nothing."""
    logits = np.zeros((1, 3, 10), np.float32)
    logits[0, :, 8] = 1.0
    judged = judge(logits, np.array([[7, 7, 8]]), np.array([[8, 7]]), range(6, 10), np.array([[8, -1, 8]]))
    kinds = [ANSWER_KINDS[kind] for kind in judged["kind"][0]]
    assert kinds == ["stale answer", "another value of the row", "right"]


def test_requests_share_batches_but_not_tables():
    """Rows of one request in another's table would be counted at the wrong distance."""
    requests = [
        Request({"fillers": 40}, 5),
        Request({"pairs": 6, "fillers": 0}, 3, first=7),
        Request({"queries_per_row": 2}, 4),
        Request({"fillers": 0, "interference": 1}, 9),
    ]
    scorer = Copier(TASK.vocab_size, TASK.value_ids, window=9)
    sizes = {"split": "test", "training_length": 16, "longest": 96}
    tables = ask(scorer, TASK, requests, batch_size=4, **sizes)
    for request, table, whole in zip(
        requests, tables, ask(scorer, TASK, requests, batch_size=64, **sizes), strict=True
    ):
        alone = ask(scorer, TASK, [request], batch_size=1, **sizes)[0]
        known = TASK.rows("test", request.first, request.rows, **request.settings).metadata
        for name in table:
            np.testing.assert_array_equal(table[name], alone[name])
            np.testing.assert_array_equal(table[name], whole[name])
        np.testing.assert_array_equal(table["row"], known["row"].ravel())
        np.testing.assert_array_equal(table["kind"] == 0, table["predicted"] == known["answer"].ravel())
    assert (tables[0]["kind"] != 0).any()


def test_places_without_a_query_are_left_out():
    """A row with fewer queries than places repeats a position; counted, it would weigh twice."""

    class Fewer(RecallAtDistance):
        def _make(self, draw, row_length, settings):
            made = super()._make(draw, row_length, settings)
            made.metadata["query_index"][:, 2] = -1
            return made

    task = Fewer(pairs=4, fillers=0, queries_per_row=3, keys=40, values=32)
    scorer = Copier(task.vocab_size, task.value_ids)
    (table,) = ask(scorer, task, [Request({}, 5)], split="test", batch_size=2, training_length=16, longest=64)
    np.testing.assert_array_equal(table["query_index"], [0, 1] * 5)
