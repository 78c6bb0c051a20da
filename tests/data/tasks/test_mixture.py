"""If these fail, a mixture skips or repeats rows of a part, or a part's ids mean two things."""

import datasets
import numpy as np
import pytest

from seqmodels.data.corpora import HuggingFace, TextFiles
from seqmodels.data.tasks.copy import Copy
from seqmodels.data.tasks.curriculum import Curriculum
from seqmodels.data.tasks.group_words import GroupWords
from seqmodels.data.tasks.mixture import Mixture
from seqmodels.data.tasks.recall_at_distance import RecallAtDistance
from seqmodels.data.text import Text
from seqmodels.errors import InputError
from seqmodels.evaluation import suites
from tests.evaluation.oracles import uniform

RECALL = RecallAtDistance(pairs=3, fillers=(0, 2), queries_per_row=5, keys=9, values=8, filler_tokens=2)
COPY = Copy(items=(3, 7), values=5)


@pytest.fixture
def text_of(tmp_path):
    """Prepared text of 30 documents, stored or streaming."""

    def make(streaming=False):
        documents = [f"text {i} " * (i + 3) for i in range(30)]
        if streaming:
            datasets.Dataset.from_dict({"text": documents}).save_to_disk(str(tmp_path / "saved"))
            corpus = HuggingFace(
                str(tmp_path / "saved"), validation_fraction=0.2, streaming=True, shuffle_window=7
            )
        else:
            (tmp_path / "files").mkdir(exist_ok=True)
            for i, document in enumerate(documents):
                (tmp_path / "files" / f"{i:02}.txt").write_text(document)
            corpus = TextFiles(str(tmp_path / "files"), validation_fraction=0.2)
        return Text(corpus)

    return make


def mixed(text_of, streaming=False, weights=(1, 2, 1)):
    mixture = Mixture((RECALL, text_of(streaming), COPY), weights)
    mixture.prepare(say=lambda _: None)
    return mixture


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SEQMODELS_CACHE", str(tmp_path / "cache"))


def kind_of(mixture, row):
    """Which part a row is from, by its ids alone."""
    ids = set(row["tokens"][row["segment_ids"] > 0].tolist()) - {0}
    copy = mixture.tasks[1]
    if mixture.text is not None and min(ids) < mixture.text.vocab_size:
        assert max(ids) < mixture.text.vocab_size
        return "text"
    return "recall" if min(ids) < copy.first_id else "copy"


def rows(batches):
    """Every row of the batches by itself."""
    for batch in batches:
        for b in range(len(batch["tokens"])):
            yield {name: array[b] for name, array in batch.items()}


@pytest.mark.parametrize("streaming", [False, True])
def test_each_part_goes_through_its_rows_in_order(text_of, streaming):
    """None is left out or comes twice, and ids of different parts never meet."""
    mixture = mixed(text_of, streaming)
    stream = mixture.stream(10, 32, seed=5)
    found = {"recall": [], "text": [], "copy": []}
    for row in rows(next(stream) for _ in range(12)):
        found[kind_of(mixture, row)].append(row)
    alone = mixture.text.stream(1, 32, 5)
    for row in found["text"]:
        expected = next(alone)
        assert row.keys() == expected.keys(), "scored positions beside text"
        for name, array in expected.items():
            assert np.array_equal(row[name], array[0]), name
    for name, task in zip(("recall", "copy"), mixture.tasks, strict=True):
        seen = {row["tokens"].tobytes() for row in found[name]}
        assert len(seen) > 0.9 * len(found[name])
        own = set(range(task.first_id, task.vocab_size))
        for row in found[name]:
            assert set(row["tokens"][row["segment_ids"] > 0].tolist()) <= own
            targets = row["targets"][row["loss_weights"] > 0]
            assert set(targets.tolist()) <= set(task.value_ids)
    counts = np.array([len(found[name]) for name in ("recall", "text", "copy")])
    assert (np.abs(counts - 120 * np.array([0.25, 0.5, 0.25])) < 5 * np.sqrt(30)).all()


@pytest.mark.parametrize("streaming", [False, True])
def test_any_number_of_processes_makes_the_same_batches_and_resumes_them(text_of, streaming):
    """A run that goes on elsewhere would otherwise train on other rows."""
    mixture = mixed(text_of, streaming)
    stream = mixture.stream(12, 32, seed=1)
    batches, states = [], []
    for _ in range(5):
        batches.append(next(stream))
        states.append(stream.state())
    for processes in (2, 3):
        parts = [mixture.stream(12, 32, 1, process, processes) for process in range(processes)]
        for batch, state in zip(batches, states, strict=True):
            made = [next(part) for part in parts]
            for name, array in batch.items():
                assert np.array_equal(array, np.concatenate([share[name] for share in made])), name
            assert all(part.state() == state for part in parts)
        parts[1].restore(states[2])
        size = 12 // processes
        assert np.array_equal(next(parts[1])["tokens"], batches[3]["tokens"][size : 2 * size])
    stream.restore(states[0])
    assert np.array_equal(next(stream)["tokens"], batches[1]["tokens"])


def test_tasks_alone_are_scored_at_their_queries():
    """All at one width, and what is added to the shorter ones weighs nothing."""
    mixture = Mixture((RECALL, COPY), (1, 1))
    for row in rows([next(mixture.stream(40, 24, 0))]):
        queries = 5 if kind_of(mixture, row) == "recall" else int(row["loss_weights"].sum())
        assert row["scored"].shape == (7,)
        assert row["loss_weights"][row["scored"]].sum() == row["loss_weights"].sum() == queries
        assert len(set(row["scored"][:queries])) == queries


def test_two_tasks_of_one_kind_share_ids_and_no_rows():
    """A task at two lengths is one vocabulary; with one seed, both would have the same pairs."""
    short, long = RecallAtDistance(fillers=0), RecallAtDistance(fillers=8)
    mixture = Mixture((short, long), (1, 1))
    assert mixture.vocab_size == short.vocab_size
    batch = next(mixture.stream(64, 40, 0))
    lengths = batch["segment_ids"].sum(axis=1)
    pairs = [{row[:8].tobytes() for row in batch["tokens"][lengths == n]} for n in (28, 36)]
    assert len(pairs[0]) + len(pairs[1]) == 64 and not pairs[0] & pairs[1]
    apart = Mixture((GroupWords("S3"), GroupWords("Z6")), (1, 1))
    assert apart.vocab_size == 24, "S3 and Z6 have six elements each, and they are not the same"


def test_a_mixture_of_one_task_is_evaluated_as_that_task(text_of):
    """Its evaluation asks the task in the mixture's ids."""
    mixture = mixed(text_of)
    recall = mixture.tasks[0]
    assert isinstance(recall, RecallAtDistance) and recall.first_id == mixture.text.vocab_size
    assert mixture.vocab_size == mixture.text.vocab_size + RECALL.vocab_size + COPY.vocab_size
    made = recall.rows("test", 0, 4)
    assert np.isin(made.metadata["answer"], recall.value_ids).all()
    assert mixture.kind == "mixture" and mixture.describe()["train_documents"] > 0


@pytest.mark.parametrize("with_text", [True, False])
def test_training_evaluates_the_text_and_the_first_task(text_of, with_text):
    """What the parts cannot answer is left out; the rest has the tags that it has alone."""
    mixture = mixed(text_of) if with_text else Mixture((RECALL, COPY), (1, 1))
    scorer = uniform(mixture.vocab_size)
    found = suites.during_training(scorer, mixture, batch_size=8, row_length=32)
    alone = suites.during_training(scorer, mixture.tasks[0], batch_size=8, row_length=32)
    assert alone.items() <= found.items()
    assert ("eval/perplexity" in found) == with_text
    every, lines = suites.choose(None, "mixture"), []
    left = suites.expressible(every, mixture, lines.append)
    assert ("perplexity" in left) == with_text and "recall" in left
    assert with_text or "perplexity was left out: the mixture holds no text." in lines


def test_what_a_mixture_is_made_of_is_in_its_fingerprint(text_of):
    variants = [
        Mixture((RECALL, COPY), (1, 1)),
        Mixture((RECALL, COPY), (1, 2)),
        Mixture((COPY, RECALL), (1, 1)),
        Mixture((RECALL, Copy(items=3)), (1, 1)),
        mixed(text_of),
    ]
    assert len({mixture.fingerprint for mixture in variants}) == 5
    assert Mixture((RECALL, COPY), (0.5, 0.5)).fingerprint == variants[0].fingerprint


@pytest.mark.parametrize(
    ("parts", "weights", "message"),
    [
        ((), (), r"Mixture.parts = \(\) should be tasks"),
        ((RECALL, "text"), (1, 1), r"parts = \(RecallAtDistance, str\) should be tasks and at most one Text"),
        ((RECALL, COPY), (1,), r"weights = \(1,\) should be 2 numbers above 0"),
        ((RECALL, COPY), (1, 0), r"weights = \(1, 0\) should be 2 numbers above 0"),
    ],
)
def test_mixtures_of_what_does_not_mix_are_refused(parts, weights, message):
    with pytest.raises(InputError, match=message):
        Mixture(parts, weights)


def test_a_row_length_that_a_part_exceeds_is_refused(text_of):
    with pytest.raises(InputError, match="rows of Copy take up to 14 tokens"):
        Mixture((RECALL, COPY), (1, 1)).stream(4, 13, 0)
    with pytest.raises(InputError, match="at most one Text"):
        Mixture((RECALL, text_of(), text_of()), (1, 1, 1))


def test_a_curriculum_takes_its_tasks_in_turn():
    """At the row where it says, wherever a batch begins."""
    easy, hard = RecallAtDistance(pairs=2, fillers=0), RecallAtDistance(pairs=8, fillers=0)
    both = Curriculum((easy, COPY, hard), rows=(10, 5))
    assert both.vocab_size == easy.vocab_size + COPY.vocab_size, "the first and the last are one vocabulary"
    stream = both.stream(7, 36, seed=2)
    whole = list(rows(next(stream) for _ in range(5)))
    assert {row["scored"].shape for row in whole} == {(20,)}
    for index, row in enumerate(whole):
        task = both.tasks[0 if index < 10 else 1 if index < 15 else 2]
        expected = task.rows("train", index, 1, seed=2, row_length=36).batch
        assert np.array_equal(row["tokens"], expected["tokens"][0])
        assert np.array_equal(row["loss_weights"], expected["loss_weights"][0])
    stream.restore({"row": 7})
    assert np.array_equal(next(stream)["tokens"], np.stack([row["tokens"] for row in whole[7:14]]))


def test_a_curriculum_is_measured_as_its_last_task():
    both = Curriculum((COPY, RECALL), rows=10)
    for changes in ({}, {"fillers": 2, "interference": 1}):
        ours = both.rows("test", 0, 5, row_length=20, **changes)
        expected = both.tasks[1].rows("test", 0, 5, row_length=20, **changes)
        assert np.array_equal(ours.batch["tokens"], expected.batch["tokens"])
    assert both.value_ids == both.tasks[1].value_ids and both.tasks[1].first_id == COPY.vocab_size
    assert both.sweeps(40) == RECALL.sweeps(40)
    asked = both.rows("train", 8, 4).metadata["query_index"]
    assert asked.shape == (4, 7) and asked[0, :3].tolist() == [0, 1, 2]
    assert asked[2].tolist() == [0, 1, 2, 3, 4, -1, -1], "a query that is not there would be counted"


@pytest.mark.parametrize(
    ("tasks", "counts", "message"),
    [
        ((), (), "holds no task"),
        ((COPY, RECALL), (), r"rows = \(\) should be 1 numbers, one for each of the 2 tasks but the last"),
        ((COPY, RECALL), (5, 5), "should be 1 numbers"),
        ((COPY, RECALL), 0, "Curriculum.rows"),
    ],
)
def test_a_curriculum_without_its_numbers_is_refused(tasks, counts, message):
    with pytest.raises(InputError, match=message):
        Curriculum(tasks, counts)
