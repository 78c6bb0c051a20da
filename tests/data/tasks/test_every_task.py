"""If these fail, some task says where its answers stand and is wrong, or gives other bytes elsewhere."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from seqmodels.data.tasks.copy import Copy
from seqmodels.data.tasks.curriculum import Curriculum
from seqmodels.data.tasks.fuzzy_recall import FuzzyRecall
from seqmodels.data.tasks.group_words import GroupWords
from seqmodels.data.tasks.induction import Induction
from seqmodels.data.tasks.mqar import Mqar
from seqmodels.data.tasks.ngram_lookup import NgramLookup
from seqmodels.data.tasks.parity import Parity
from seqmodels.data.tasks.phonebook import Phonebook
from seqmodels.data.tasks.recall_at_distance import RecallAtDistance
from seqmodels.data.tasks.selective_copy import SelectiveCopy
from seqmodels.errors import InputError

SWITCHES = {"rebind": 0.5, "query_first": True, "read_twice": True, "noisy": 0.3, "pairs": (4, 6)}
TASKS = {
    "recall": RecallAtDistance(),
    "recall with switches": RecallAtDistance(**SWITCHES),
    "fuzzy": FuzzyRecall(pairs=(3, 5)),
    "mqar": Mqar(),
    "mqar with fillers": Mqar(length=48, pairs=4, filler_tokens=9),
    "induction": Induction(),
    "induction, one cue": Induction(cues=1, payload=3),
    "induction, general": Induction(cues=5, payload=2, special=False),
    "copy": Copy(),
    "selective copy": SelectiveCopy(),
    "n-grams": NgramLookup(),
    "phonebook": Phonebook(),
    "parity": Parity(),
    "S3": GroupWords(),
    "A5": GroupWords("A5", length=12),
    "S5, at the end": GroupWords("S5", last_only=True),
    "curriculum": Curriculum((Copy(items=4), Copy(items=8), Induction()), rows=(5, 10)),
}
HASHES = {
    "recall": "8c439267dd706246b1761e212e4065e0",
    "recall with switches": "1eff2225098ed346afdfac60c2be7ca4",
    "fuzzy": "ceae6ab4a929f47666ba320613b4f2d6",
    "mqar": "45c7b163a078dc004e782cd5cacdd4c1",
    "mqar with fillers": "3ee1872cece4626a332570dd6eb00907",
    "induction": "2b8c36c04142495d17bf89caa90f63dc",
    "induction, one cue": "2de6d73293fb639f1f6ec210866b731c",
    "induction, general": "6416b3ae05129f82a3d421637756a43d",
    "copy": "1e434532d1c30a24f5f327385fdad821",
    "selective copy": "8bb023049763560d257a78f9f5247e8f",
    "n-grams": "cf1fa3c50abf33ec4d4810f59a276d9a",
    "phonebook": "eee8871e1e1bcaac6c6eb6b1c52aa8f7",
    "parity": "fd0dbcbcb519f42c51e742ae07c88502",
    "S3": "7fca3925f6cc90ec544919e4a8f058b0",
    "A5": "30f2f0c818bc32b529c7cca70f5bf42a",
    "S5, at the end": "645197cdb1bc7a1c8bd4e7194c6545cc",
    "curriculum": "e37a786df94a633754ea20a1bc1daf6d",
}
every = pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)


@every
def test_every_query_is_answered_where_the_metadata_says(task):
    """Weight, target, answer and the token that stands `distance` before the query are one and the same."""
    length = task.row_tokens() + 5
    batch, about = task.rows("train", 3, 60, row_length=length)
    tokens, scored = batch["tokens"], batch["scored"]
    values = {value for each in getattr(task, "tasks", [task]) for value in each.value_ids}
    required = {"distance", "query_index", "row", "answer", "pairs", "values_in_row"}
    assert required <= set(about) and {array.dtype for array in about.values()} == {np.dtype(np.int64)}
    for b in range(60):
        real = int(batch["segment_ids"][b].sum())
        assert batch["segment_ids"][b].tolist() == [1] * real + [0] * (length - real)
        assert not tokens[b, real:].any(), "padding holds a token"
        weights = np.zeros(length)
        for r, position in enumerate(scored[b].tolist()):
            if about["query_index"][b, r] < 0:
                assert batch["loss_weights"][b, position] == 0, "a query that is not there is trained on"
                continue
            weights[position] = 1
            answer, distance = about["answer"][b, r], about["distance"][b, r]
            assert batch["targets"][b, position] == answer and answer in values
            assert answer in about["values_in_row"][b]
            assert distance > 0 and about["row"][b, r] == 3 + b
            if not isinstance(task, GroupWords):
                assert tokens[b, position - distance] == answer, "the answer is not written where it is said"
        assert np.array_equal(batch["loss_weights"][b], weights), "something else than the queries has weight"
        assert not batch["targets"][b][weights == 0].any()
        asked = about["query_index"][b]
        assert asked[asked >= 0].tolist() == list(range(int(weights.sum())))
    assert tokens.max() < task.vocab_size and tokens.min() >= 0


@every
def test_no_filler_is_a_key_or_a_value(task):
    """A filler that could be an answer would be noise of unknown strength in every figure."""
    assert not set(task.filler_ids) & (set(task.key_ids) | set(task.value_ids))
    if task.filler_ids:
        about = task.rows("test", 0, 50).metadata
        held = np.where(about["query_index"] >= 0, about["answer"], task.value_ids.start)
        assert not np.isin(held, task.filler_ids).any()


@every
def test_any_batch_size_gives_the_same_bytes(task):
    """If not, a run could not be resumed, nor an evaluation repeated with another batch size."""
    whole = task.rows("train", 0, 24, seed=3)
    for size in (1, 5):
        parts = [task.rows("train", at, min(size, 24 - at), seed=3) for at in range(0, 24, size)]
        for name, array in whole.batch.items():
            assert np.array_equal(array, np.concatenate([part.batch[name] for part in parts])), name
        if not isinstance(task, Curriculum):  # of a part of its rows the metadata are those of their own task
            for name, array in whole.metadata.items():
                assert np.array_equal(array, np.concatenate([part.metadata[name] for part in parts])), name


def hashes():
    return {name: task.rows_hash("test", 0, 100, seed=7) for name, task in TASKS.items()}


def test_another_process_makes_the_same_bytes():
    """Neither the order of a set nor what was made before may enter a row."""
    script = (
        "import json; from tests.data.tasks import test_every_task as here; print(json.dumps(here.hashes()))"
    )
    root = Path(__file__).parents[3]
    environment = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120, cwd=root
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == json.dumps(hashes())


def test_the_bytes_are_those_of_every_machine():
    """A change of these bytes is a change of the task: raise its `format`, then take the new hash."""
    assert hashes() == HASHES


@every
def test_splits_and_seeds_share_no_row(task):
    """A row of the test that was trained on would be remembered, not recalled. Short words do repeat."""
    task = GroupWords("S5", length=32) if isinstance(task, GroupWords) else task
    seen = set()
    for split in ("train", "validation", "test"):
        for seed in (0, 1):
            for first in range(0, 40, 20):
                batch = task.rows(split, first, 20, seed=seed, row_length=task.row_tokens()).batch
                seen |= {row.tobytes() for row in np.concatenate([batch["tokens"], batch["scored"]], axis=1)}
    assert len(seen) == 6 * 40


@every
def test_answers_are_uniform(task):
    """A value that comes more often would be a better guess than chance says."""
    about = task.rows("test", 0, 3000).metadata
    counts = np.bincount(about["answer"][:, 0] - task.value_ids.start, minlength=len(task.value_ids))
    mean = 3000 / len(task.value_ids)
    assert len(counts) == len(task.value_ids) and np.abs(counts - mean).max() < 5 * np.sqrt(mean)


@every
def test_every_point_of_its_sweeps_makes_rows(task):
    """A curve asks for settings that the task was never built with."""
    sweeps = task.sweeps(160)
    assert sweeps and all(sweep.points for sweep in sweeps)
    for sweep in sweeps:
        at = [point.at for point in sweep.points]
        assert at == sorted(set(at)) and at[0] > 0, "no point of a logarithmic axis"
        for point in sweep.points:
            rows = task.rows("test", 0, 3, row_length=160, **point.settings)
            assert (rows.batch["segment_ids"].sum(axis=1) <= task.row_tokens(**point.settings)).all()
            assert rows.metadata["query_index"][:, 0].tolist() == [0, 0, 0]
    with pytest.raises(InputError, match="the shortest row of the task takes"):
        task.sweeps(0 if isinstance(task, Copy) else 1) if not isinstance(task, GroupWords) else task.sweeps(
            0
        )


@every
def test_a_task_that_stands_behind_other_ids_is_the_same_task(task):
    """In a mixture with text its ids must neither meet the text's nor lose one another."""
    moved = task.moved(1000)
    here, there = (each.rows("test", 0, 10, row_length=200) for each in (task, moved))
    assert moved.vocab_size == 1000 + task.vocab_size and type(moved) is type(task)
    for name, place in (("tokens", "segment_ids"), ("targets", "loss_weights")):
        shifted = np.where(here.batch[place] > 0, here.batch[name] + 1000, 0)
        assert np.array_equal(there.batch[name], shifted)
    assert np.array_equal(there.batch["scored"], here.batch["scored"])
    for name in ("answer", "values_in_row"):
        real = here.metadata["query_index"] >= 0 if name == "answer" else here.metadata[name] >= 0
        assert np.array_equal(there.metadata[name], here.metadata[name] + 1000 * real)
    for ids in ("key_ids", "value_ids", "filler_ids"):
        assert len(getattr(moved, ids)) == len(getattr(task, ids))
    assert there.metadata["answer"].max() in moved.value_ids
    assert moved.fingerprint != task.fingerprint
