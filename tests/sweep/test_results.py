"""What a sweep writes: tables that fit a terminal, and a folder that is known again."""

import json

import pytest

from seqmodels.errors import InputError
from seqmodels.evaluation.learning_rates import CRITERIA
from seqmodels.sweep import results
from seqmodels.sweep.grid import Member, Recipe
from seqmodels.sweep.outcome import Outcome
from seqmodels.sweep.results import Entry
from tests.training.saved import no_file_longer_than

RECALL, TEXT = CRITERIA["recall"], CRITERIA["text"]


def entry(label, rates=(1e-3, 1e-2), seeds=(0, 1), text="AdamW.beta1 = 0.9"):
    members = tuple(Member(label, rate, seed) for rate in rates for seed in seeds)
    return Entry(Recipe(label, f"{label}.gin", (), "AdamW", text, members), 600, "abc", 1 / 128)


def outcomes(entries, criterion, values):
    """A value for each member; None fails."""
    members = [member for each in entries for member in each.recipe.members]
    return {
        member: Outcome("update 3 has a loss of nan. And so on.", {}, 2, 1.0)
        if value is None
        else Outcome(None, {criterion.tag: value}, 600, 1.0)
        for member, value in zip(members, values, strict=False)
    }


def test_the_table_fits_100_columns_and_says_what_counts(tmp_path):
    """A table that wraps cannot be read; figures without their counts and interval say nothing."""
    entries = [entry("a_label_that_is_far_too_long_for_any_column_of_a_table"), entry("b")]
    ended = outcomes(entries, RECALL, [0.2, 0.99, 1.0, 0.97, 0.1, 0.1, None, 0.3])
    lines = results.write_tables(tmp_path, entries, ended, RECALL)
    assert max(map(len, lines)) <= 100
    text = "\n".join(lines)
    for said in (
        "recall area on validation rows after 600 updates, seeds 0, 1",
        "P(solve >= 0.95)",
        "0.595  0.200  0.990  1 of 2 (0.09 to 0.91)",
        "0.985  0.970  1.000  2 of 2 (0.34 to 1.00)",
        "b: 1 failed, counted as the worst value there is.",
        "Guessing any value reaches 0.00781.",
        ">= 1x, 0.0 octaves",
    ):
        assert said in text, text
    assert " 0.01 * " in text, "the best rate is marked"
    page = (tmp_path / "sweep.md").read_text()
    assert "b_lr0.01_seed0: update 3 has a loss of nan" in page and "![" in page
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_that_the_disk_does_not_take_is_one_sentence(tmp_path):
    entries = [entry("a")]
    with no_file_longer_than(4096), pytest.raises(InputError, match=r"sweep\.png cannot be written: "):
        results.write_tables(tmp_path, entries, outcomes(entries, TEXT, [2.2]), TEXT)


def test_text_has_no_threshold_to_solve(tmp_path):
    entries = [entry("a")]
    lines = results.write_tables(tmp_path, entries, outcomes(entries, TEXT, [2.2, 2.1, 2.3, None]), TEXT)
    text = " ".join(lines)
    assert "solve" not in text and "lower is better" in text
    cells = [line.split() for line in lines]
    assert ["a", "0.001", "*", "2.150", "2.100", "2.200"] in cells
    assert ["a", "0.01", "failed", "2.300", "failed"] in cells


def test_the_summary_is_json_and_tells_what_is_open(tmp_path):
    """JSON knows no infinity, as a failed member counts: a reader in another language would refuse it."""
    entries = [entry("a")]
    results.write_summary(tmp_path, entries, outcomes(entries, TEXT, [2.2, None]), TEXT)
    known = json.loads((tmp_path / "sweep.json").read_text(), parse_constant=pytest.fail)
    assert known["members"]["a_lr0.01_seed1"]["open"]
    assert known["members"]["a_lr0.001_seed0"]["values"] == {TEXT.tag: 2.2}
    assert known["results"]["a"]["rates"][0]["values"] == [2.2, "inf"]
    assert known["configs"]["a"]["config"] == "AdamW.beta1 = 0.9"


def test_a_sweep_may_grow_and_is_not_mistaken_for_another(tmp_path):
    """Members of other settings under the same name would stand in one table as if they compared."""
    small = [entry("a")]
    results.check_folder(tmp_path / "new", [each.recipe for each in small])
    results.write_summary(tmp_path, small, {}, RECALL)
    results.check_folder(tmp_path, [each.recipe for each in small])
    grown = [entry("a", rates=(1e-4, 1e-3, 1e-2), seeds=(0, 1, 2)), entry("b")]
    results.check_folder(tmp_path, [each.recipe for each in grown])
    for other, said in (
        (entry("a", rates=(1e-3,)), "holds another sweep, with members that this one has not"),
        (entry("b"), "holds another sweep, with members that this one has not"),
        (entry("a", text="AdamW.beta1 = 0.8"), "another sweep, in which a had other settings"),
    ):
        with pytest.raises(InputError, match=said):
            results.check_folder(tmp_path, [other.recipe])


def test_members_that_are_done_tie_a_sweep_to_their_data(tmp_path):
    """Figures on two texts would stand in one median as if they compared."""
    known = [entry("a"), entry("b")]
    results.check_data(tmp_path, known, {})
    results.write_summary(tmp_path, known, outcomes(known[:1], RECALL, [0.2]), RECALL)
    now = [entry("a", seeds=(0, 1, 2)), entry("b")._replace(data="def"), entry("c")]
    ended = outcomes(now, RECALL, [0.2])
    results.check_data(tmp_path, now, ended)
    with pytest.raises(InputError, match=r"members of a .* other data: .* was abc and is now def"):
        results.check_data(tmp_path, [now[0]._replace(data="def"), *now[1:]], ended)


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(InputError, match=r"holds other files \(thesis\.tex\) and no sweep"):
        results.check_folder(tmp_path, [])
    with pytest.raises(InputError, match="is a file"):
        results.check_folder(tmp_path / "thesis.tex", [])
    (tmp_path / "sweep.json").write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        results.check_folder(tmp_path, [])
