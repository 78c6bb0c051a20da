"""If these fail, our rows are not those of the published task, and no figure compares with its."""

import json
from pathlib import Path

import numpy as np
import pytest

from seqmodels.data.tasks.mixture import Mixture
from seqmodels.data.tasks.mqar import Mqar
from seqmodels.errors import InputError
from tests.data.tasks.mqar_layout import IGNORE, read


def read_ours(task, count):
    """The slots `[count, K]` of our rows, each checked against the layout."""
    batch = task.rows("train", 0, count).batch
    labels = np.where(batch["loss_weights"] > 0, batch["targets"], IGNORE)
    settings = task.settings
    return np.array(
        [
            read(
                row.tolist(),
                label.tolist(),
                vocabulary=settings["vocabulary"],
                pairs=settings["pairs"],
                fillers=task.filler_ids,
            )
            for row, label in zip(batch["tokens"], labels, strict=True)
        ]
    )


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"vocabulary": 24, "length": 16, "pairs": 2},
        {"vocabulary": 65, "length": 64, "pairs": 16},
        {"length": 48, "pairs": 7, "filler_tokens": 5},
        {"vocabulary": 8192, "length": 512, "pairs": 128},
    ],
)
def test_our_rows_obey_the_layout(settings):
    """Keys, values, slots, labels and fillers, row by row; all slots of a row may be taken."""
    read_ours(Mqar(**settings), 100)


def test_reference_rows_obey_the_layout(refs):
    """The reader that checks ours is the one that the published generator's rows pass."""
    files = sorted(Path(refs, "mqar").glob("*.npz"))
    assert files
    for file in files:
        with np.load(file) as stored:
            inputs, labels = stored["inputs"], stored["labels"]
            config = json.loads(str(stored["config"]))
        pairs = config["num_kv_pairs"]
        fillers = None if config["random_non_queries"] else range(1)
        for row, label in zip(inputs.tolist(), labels.tolist(), strict=True):
            read(row, label, vocabulary=config["vocab_size"], pairs=pairs, fillers=fillers)


def test_slots_of_ours_and_of_the_reference_are_distributed_alike(refs):
    """Means over rows of each pair's slot; the weights or the order of drawing would move them apart."""
    with np.load(Path(refs, "mqar", "v256_t64_k8_s1.npz")) as stored:
        inputs, labels = stored["inputs"].tolist(), stored["labels"].tolist()
    theirs = np.array(
        [read(*row, vocabulary=256, pairs=8, fillers=None) for row in zip(inputs, labels, strict=True)]
    )
    ours = read_ours(Mqar(vocabulary=256, length=64, pairs=8), 4000)
    error = np.sqrt(theirs.var(axis=0) / len(theirs) + ours.var(axis=0) / len(ours))
    assert (np.abs(theirs.mean(axis=0) - ours.mean(axis=0)) < 4.5 * error).all()


@pytest.mark.parametrize("power", [0.01, 1.0])
def test_slots_are_drawn_with_their_weights_without_replacement(power):
    """The law of the first pair's slot, and of the second's given that it is another one, exactly."""
    task, count = Mqar(vocabulary=64, length=32, pairs=3, power=power), 20_000
    about = task.rows("train", 0, count).metadata
    order = np.argsort(about["pair"], axis=1)
    slots = (about["distance"] - 2 * 3 + 2 * about["pair"] + 1) // 2
    slots = np.take_along_axis(slots, order, axis=1)
    weights = np.arange(1, 14) ** (power - 1)
    first = weights / weights.sum()
    second = np.array(
        [sum(p * q / (1 - p) for j, p in enumerate(first) if j != i) for i, q in enumerate(first)]
    )
    for pair, law in enumerate((first, second)):
        counts = np.bincount(slots[:, pair], minlength=13)
        assert (np.abs(counts - count * law) < 5 * np.sqrt(count * law)).all()


def test_the_distance_is_that_of_the_documented_formula():
    """2 K + 2 slot - 2 j - 1, from the value to its query."""
    task = Mqar()
    slots, about = read_ours(task, 50), task.rows("train", 0, 50).metadata
    for b in range(50):
        expected = sorted((2 * slot, 16 + 2 * slot - 2 * j - 1) for j, slot in enumerate(slots[b]))
        assert about["distance"][b].tolist() == [distance for _, distance in expected]


def test_the_mix_of_the_published_figure_can_be_written_down():
    """Vocabulary 8192, five pairs of length and load that share their ids, in one row length."""
    cells = [(64, 4), (128, 8), (256, 16), (256, 32), (256, 64)]
    tasks = tuple(Mqar(vocabulary=8192, length=length, pairs=pairs) for length, pairs in cells)
    mixture = Mixture(tasks, weights=(5, 1, 1, 1, 1))
    assert mixture.vocab_size == 8192
    batch = next(mixture.stream(256, 256, 0))
    assert batch["scored"].shape == (256, 64)
    loads, counts = np.unique(batch["loss_weights"].sum(axis=1), return_counts=True)
    assert loads.tolist() == [4, 8, 16, 32, 64] and counts[0] > 100
    for length, pairs in ((64, 16), (512, 128), (1024, 256)):
        assert Mqar(vocabulary=8192).row_tokens(length=length, pairs=pairs) == length


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"length": 63}, "length = 63 should be even"),
        ({"vocabulary": 64}, "vocabulary = 64 should be more than length = 64"),
        ({"pairs": 17}, "pairs = 17 should be at most a quarter of length = 64"),
        ({"pairs": 0}, "pairs = 0 should be at least 1"),
        ({"filler_tokens": -1}, "filler_tokens = -1"),
    ],
)
def test_settings_that_make_no_row_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        Mqar(**settings)
