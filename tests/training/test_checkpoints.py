"""Checkpoints: what is written comes back to the bit, a failed save costs no other, what is best is kept."""

import shutil

import jax
import jax.numpy as jnp
import pytest

from seqmodels.errors import CheckpointWriteError, InputError
from seqmodels.training.batches import check_rows, check_size
from seqmodels.training.best import best_step
from seqmodels.training.checkpoints import Checkpoints, restore_params, steps
from seqmodels.training.mesh import make_mesh, replicated
from seqmodels.training.metrics_file import MetricsFile
from tests.training.saved import (
    abstract,
    content,
    empty_run,
    no_file_longer_than,
    restore,
    same_bits,
    save,
    state_at,
)


@pytest.fixture
def run(tmp_path):
    return empty_run(tmp_path)


def test_the_state_comes_back_to_the_bit_with_the_position_in_the_data(run):
    save(run, 3)
    restored, said = restore(run)
    assert (restored.step, restored.data, said) == (3, {"row": 3}, [])
    same_bits(restored.state, state_at(3))


def test_without_a_checkpoint_there_is_nothing_to_restore(run):
    assert restore(run) == (None, [])


def test_a_save_survives_the_donation_of_its_state(run):
    """The background writer must not read arrays that the next step has already overwritten."""
    update = jax.jit(
        lambda state: jax.tree.map(lambda leaf: leaf + jnp.ones((), leaf.dtype), state), donate_argnums=0
    )
    checkpoints, state = Checkpoints(run), state_at(0)
    for step in range(1, 5):
        state = update(state)
        expected = jax.device_get(state)
        checkpoints.save(step, state, {})
        state = update(state)
        checkpoints.wait()
        restored = checkpoints.restore(abstract(), print)
        assert restored.step == step
        same_bits(jax.device_get(restored.state), expected)
    checkpoints.close()


def test_another_number_of_devices_restores_the_same_bits(run):
    """From 8 devices to 1 and back; parameters alone too, as an evaluation on one device does."""
    spread = replicated(make_mesh())
    checkpoints = Checkpoints(run)
    checkpoints.save(1, jax.device_put(state_at(1), spread), {})
    checkpoints.close()
    for sharding in (None, spread):
        restored, _ = restore(run, abstract(sharding=sharding))
        same_bits(jax.device_get(restored.state), jax.device_get(state_at(1)))
        assert len(restored.state.step.sharding.device_set) == (8 if sharding else 1)
    step, params = restore_params(run, "latest", abstract().params)
    assert step == 1
    same_bits(params, state_at(1).params)


def test_a_step_that_is_not_there_is_refused_with_those_that_are(run):
    with pytest.raises(InputError, match="has no checkpoint"):
        restore_params(run, "latest", abstract().params)
    save(run, 2)
    with pytest.raises(InputError, match="no checkpoint of step 3; there are: 2"):
        restore_params(run, 3, abstract().params)
    with pytest.raises(InputError, match="no evaluation"):
        restore_params(run, "best", abstract().params)


def test_the_newest_two_and_the_best_are_kept(run):
    """The best is known from the evaluations of this process and of earlier ones."""
    log = MetricsFile(run.metrics_file, 0)
    log.write(1, 0, 0.0, {"eval/bits_per_byte": 3.0})
    log.close()
    checkpoints = Checkpoints(run)
    for step, bits in enumerate([3.0, 2.0, 2.5, 2.6, 2.7], start=1):
        checkpoints.save(step, state_at(step), {})
        checkpoints.evaluated(step, {"eval/bits_per_byte": bits})
    checkpoints.close()
    assert steps(run.checkpoints) == [2, 4, 5]


def test_every_so_many_steps_a_checkpoint_stays(run):
    checkpoints = Checkpoints(run, keep_every=4)
    for step in range(2, 15, 2):
        checkpoints.save(step, state_at(step), {})
    checkpoints.close()
    assert steps(run.checkpoints) == [4, 8, 12, 14]


def test_an_evaluation_beyond_the_step_gone_on_from_chooses_no_checkpoint(run):
    """Of an update that was taken back, and is made again with another learning rate."""
    save(run, 2)
    log = MetricsFile(run.metrics_file, 0)
    log.write(2, 0, 0.0, {"eval/bits_per_byte": 2.0})
    log.write(4, 0, 0.0, {"eval/bits_per_byte": 1.0})
    log.close()
    checkpoints = Checkpoints(run)
    checkpoints.restore(abstract(), print)
    for step in (4, 6, 8, 10):
        checkpoints.save(step, state_at(step), {})
    checkpoints.close()
    assert steps(run.checkpoints) == [2, 8, 10]


def test_the_best_step_is_the_lowest_bits_per_byte_or_the_highest_recall_among_those_present():
    bits = [{"step": 1, "eval/bits_per_byte": 1.0}, {"step": 2, "eval/bits_per_byte": float("nan")}]
    bits += [{"step": 3, "eval/bits_per_byte": 2.0}, {"step": 4, "eval/bits_per_byte": 2.0}]
    assert best_step(bits, [1, 2, 3, 4]) == 1
    assert best_step(bits, [2, 3, 4]) == 3, "of equals the earliest; what is no number is none"
    recall = [{"step": 1, "eval/recall_area": 0.2}, {"step": 2, "eval/recall_area": 0.9}]
    assert best_step(recall, [1, 2]) == 2
    assert best_step([{"step": 1, "train/loss": 1.0}], [1]) is None


def test_a_full_disk_costs_the_checkpoint_being_written_and_no_other(run, capfd):
    """Lost silently, the run would end with status 0. Each size stops the save at another of its files."""
    save(run, 1)
    before = content(run, 1)
    for size in (0, 64, 128, 512, 2048, 4096):
        assert max(map(len, before.values())) > size
        checkpoints = Checkpoints(run)
        with no_file_longer_than(size), pytest.raises(CheckpointWriteError) as error:
            checkpoints.save(2, state_at(2), {"row": 2})
            checkpoints.wait()
        checkpoints.close()
        assert str(error.value).startswith(
            f"checkpoint 2 was not written to {run.checkpoints}: File too large;"
        )
        assert steps(run.checkpoints) == [1] and content(run, 1) == before
    save(run, 2)
    assert restore(run)[0].step == 2
    assert capfd.readouterr().err == ""


def test_a_folder_that_cannot_be_made_is_reported_with_its_step(run):
    """A file is in its place, as good as a directory that is read-only."""
    save(run, 1)
    (run.checkpoints / "2").touch()
    checkpoints = Checkpoints(run)
    checkpoints.save(2, state_at(2), {})
    with pytest.raises(CheckpointWriteError, match="checkpoint 2 was not written to "):
        checkpoints.wait()
    checkpoints.close()
    run.checkpoints.rename(run.path / "moved")
    run.checkpoints.touch()
    with pytest.raises(CheckpointWriteError, match="checkpoint 3 was not written to "):
        checkpoints = Checkpoints(run)
        checkpoints.save(3, state_at(3), {})
        checkpoints.wait()


def test_a_save_that_was_cut_off_is_skipped_with_a_sentence_and_its_rest_removed(run):
    """The process was killed: before the library was done, before the files were listed, while deleting."""
    save(run, 2, 4)
    for name in ("6.unfinished.orbax-checkpoint-tmp", "8.unfinished", "2.deleted"):
        (run.checkpoints / name / "params").mkdir(parents=True)
    restored, said = restore(run)
    assert restored.step == 4
    assert [sentence.partition(":")[0] for sentence in said] == [
        "checkpoint 6 is skipped",
        "checkpoint 8 is skipped",
    ]
    assert {path.name for path in run.checkpoints.iterdir()} == {"2", "4"}


def test_what_a_user_put_beside_the_checkpoints_stays(run):
    """A copy made by hand is the last place to lose: only what a stopped save leaves is removed."""
    save(run, 2, 4)
    for name in ("2.backup", "4.copy", "4.damaged"):
        shutil.copytree(run.checkpoints / "2", run.checkpoints / name)
    (run.checkpoints / "4.txt").touch()
    (run.checkpoints / "6.unfinished").touch()
    before = sorted(run.checkpoints.rglob("*"))
    restored, said = restore(run)
    assert restored.step == 4 and said == []
    assert sorted(run.checkpoints.rglob("*")) == before


def test_rows_that_do_not_spread_over_the_devices_are_refused_with_numbers_that_do():
    check_rows(16, 2, 8)
    with pytest.raises(InputError, match=r"train\.batch_size = 12 .* 8 or 16 does"):
        check_rows(12, 1, 8)
    with pytest.raises(InputError, match=r"no multiple of train\.accumulation = 3"):
        check_rows(16, 3, 1)


def test_a_batch_beyond_the_memory_is_refused_before_it_is_made():
    """Laying out its rows would take minutes and end in a kill."""
    check_size(16, 256, 1)
    with pytest.raises(InputError, match=r"train\.batch_size = 100000000000 rows .* GiB: lower"):
        check_size(10**11, 256, 1)
