"""Checkpoints: what is written comes back to the bit, what is damaged is noticed, what is best is kept."""

import os
import resource
import signal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqmodels.errors import CheckpointWriteError, InputError
from seqmodels.training.batches import check_rows, check_size
from seqmodels.training.best import best_step
from seqmodels.training.checkpoints import Checkpoints, restore_params, steps
from seqmodels.training.mesh import make_mesh, replicated
from seqmodels.training.metrics_file import MetricsFile
from seqmodels.training.run_directory import RunDirectory
from seqmodels.training.step import TrainState


@pytest.fixture
def run(tmp_path):
    (tmp_path / "config.gin").write_text("")
    return RunDirectory(tmp_path)


def state_at(step: int) -> TrainState:
    """A state whose content tells the step; lists of layers have integer keys, as in a model."""
    random = np.random.default_rng(step)
    params = {
        "layers": {0: jnp.asarray(random.normal(size=(40, 30)), jnp.float32), 1: jnp.ones((3,), jnp.bfloat16)}
    }
    moments = (jax.tree.map(jnp.zeros_like, params), jnp.full((), step, jnp.int32))
    return TrainState(params, moments, jnp.full((), step, jnp.int32), jnp.array([1, step], jnp.int32))


def abstract(sharding=None):
    sharding = sharding or jax.sharding.SingleDeviceSharding(jax.devices()[0])
    return jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding), state_at(0)
    )


def save(run, *numbers):
    checkpoints = Checkpoints(run)
    for step in numbers:
        checkpoints.save(step, state_at(step), {"row": step})
    checkpoints.close()


def restore(run, sharding=None):
    said = []
    checkpoints = Checkpoints(run)
    restored = checkpoints.restore(abstract(sharding), said.append)
    checkpoints.close()
    return restored, said


def same_bits(first, second):
    assert jax.tree.structure(first) == jax.tree.structure(second)
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert getattr(a, "weak_type", False) == getattr(b, "weak_type", False)
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


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
        restored, _ = restore(run, sharding)
        same_bits(jax.device_get(restored.state), jax.device_get(state_at(1)))
        assert len(restored.state.step.sharding.device_set) == (8 if sharding else 1)
    step, params = restore_params(run, "latest", abstract().params)
    assert step == 1
    same_bits(params, state_at(1).params)


def array_files(run, step):
    files = [path for path in (run.checkpoints / str(step)).rglob("*") if path.is_file()]
    return sorted(files, key=lambda path: path.stat().st_size)


def remove_half(run, step):
    for path in array_files(run, step)[::2]:
        path.unlink()


def empty_the_largest(run, step):
    os.truncate(array_files(run, step)[-1], 0)


def flip_a_bit(run, step):
    """Of the stored numbers: the library reads them back wrong without a word."""
    path = array_files(run, step)[-1]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def remove_the_optimizer(run, step):
    for path in sorted((run.checkpoints / str(step) / "opt_state").rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    (run.checkpoints / str(step) / "opt_state").rmdir()


DAMAGES = [remove_half, empty_the_largest, flip_a_bit, remove_the_optimizer]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_skipped_with_a_sentence_and_written_again(run, damage, capfd):
    save(run, 2, 4)
    damage(run, 4)
    restored, said = restore(run)
    assert restored.step == 2
    same_bits(restored.state, state_at(2))
    assert len(said) == 1 and "checkpoint 4 is damaged and skipped" in said[0] and "\n" not in said[0]
    assert "Traceback" not in capfd.readouterr().err
    save(run, 4)
    assert restore(run)[0].step == 4


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_older_checkpoint_does_not_stop_the_run(run, damage):
    save(run, 2, 4)
    damage(run, 2)
    checkpoints = Checkpoints(run)
    assert checkpoints.restore(abstract(), print).step == 4
    checkpoints.save(6, state_at(6), {})
    checkpoints.close()
    assert steps(run.checkpoints)[-2:] == [4, 6]


def test_when_all_are_damaged_nothing_starts_afresh_silently(run):
    save(run, 2)
    flip_a_bit(run, 2)
    with pytest.raises(InputError, match="none of the checkpoints"):
        restore(run)


def test_parameters_alone_need_no_optimizer_state_and_are_checked(run):
    save(run, 2)
    remove_the_optimizer(run, 2)
    _, params = restore_params(run, 2, abstract().params)
    same_bits(params, state_at(2).params)
    flip_a_bit(run, 2)
    with pytest.raises(InputError, match="is damaged"):
        restore_params(run, 2, abstract().params)


def test_parameters_of_another_model_are_refused_by_name_and_shape(run):
    save(run, 2)
    other = {"layers": {0: jax.ShapeDtypeStruct((40, 31), jnp.float32), 1: abstract().params["layers"][1]}}
    with pytest.raises(
        InputError, match=r"layers/0 is \(40, 30\) in the checkpoint and \(40, 31\) in the model"
    ):
        restore_params(run, 2, other)


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


def test_the_best_step_is_the_lowest_bits_per_byte_or_the_highest_recall_among_those_present():
    bits = [{"step": 1, "eval/bits_per_byte": 1.0}, {"step": 2, "eval/bits_per_byte": float("nan")}]
    bits += [{"step": 3, "eval/bits_per_byte": 2.0}, {"step": 4, "eval/bits_per_byte": 2.0}]
    assert best_step(bits, [1, 2, 3, 4]) == 1
    assert best_step(bits, [2, 3, 4]) == 3, "of equals the earliest; what is no number is none"
    recall = [{"step": 1, "eval/recall_area": 0.2}, {"step": 2, "eval/recall_area": 0.9}]
    assert best_step(recall, [1, 2]) == 2
    assert best_step([{"step": 1, "train/loss": 1.0}], [1]) is None


def test_a_save_that_fails_in_the_background_is_reported_with_its_step(run):
    """A full disk: files may not grow beyond 2 KiB. Lost silently, the run would end with status 0."""
    checkpoints = Checkpoints(run)
    checkpoints.save(1, state_at(1), {})
    checkpoints.wait()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, before[1]))
    try:
        with pytest.raises(CheckpointWriteError, match="checkpoint 2 was not written"):
            checkpoints.save(2, state_at(2), {})
            checkpoints.wait()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert restore(run)[0].step == 1


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
