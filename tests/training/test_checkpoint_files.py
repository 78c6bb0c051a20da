"""A checkpoint with a wrong bit anywhere, or a file too few, is noticed and skipped, and stops nothing."""

import os
import random
import shutil
import subprocess

import pytest

from seqmodels.errors import InputError
from seqmodels.training import checkpoint_files
from seqmodels.training.checkpoints import Checkpoints, restore_params, steps
from tests.training.saved import (
    abstract,
    closed,
    content,
    empty_run,
    files,
    restore,
    same_bits,
    save,
    state_at,
)


@pytest.fixture
def run(tmp_path):
    return empty_run(tmp_path)


def flip_a_bit(path, at, bit=2):
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << bit
    path.write_bytes(content)


def remove_half(run, step):
    for path in files(run, step)[::2]:
        path.unlink()


def empty_the_largest(run, step):
    os.truncate(files(run, step)[-1], 0)


def flip_a_bit_of_the_numbers(run, step):
    """The library reads them back wrong without a word."""
    largest = files(run, step)[-1]
    flip_a_bit(largest, largest.stat().st_size // 2)


def remove_the_optimizer(run, step):
    shutil.rmtree(run.checkpoints / str(step) / "opt_state")


def remove_the_list(run, step):
    (run.checkpoints / str(step) / checkpoint_files.LIST).unlink()


DAMAGES = [
    remove_half,
    empty_the_largest,
    flip_a_bit_of_the_numbers,
    remove_the_optimizer,
    remove_the_list,
]


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


def test_a_damaged_older_checkpoint_does_not_stop_the_run(run):
    save(run, 2, 4)
    remove_half(run, 2)
    checkpoints = Checkpoints(run)
    assert checkpoints.restore(abstract(), print).step == 4
    checkpoints.save(6, state_at(6), {})
    checkpoints.close()
    assert steps(run.checkpoints)[-2:] == [4, 6]


def test_when_all_are_damaged_nothing_starts_afresh_and_nothing_is_moved(run):
    save(run, 2, 4)
    flip_a_bit_of_the_numbers(run, 2)
    remove_the_list(run, 4)
    before = content(run, 2)
    with pytest.raises(InputError, match=r"none of the checkpoints .*4: SHA256SUMS is missing; 2: .*differs"):
        restore(run)
    assert steps(run.checkpoints) == [2, 4] and content(run, 2) == before


def test_a_bit_flipped_anywhere_a_byte_cut_off_anything_removed_or_added_is_noticed(run):
    """In numbers, the library's metadata and manifests, the position in the data, the list itself."""
    save(run, 2)
    folder, chance = run.checkpoints / "2", random.Random(0)
    assert checkpoint_files.damage(folder) is None
    for path in files(run, 2):
        whole = path.read_bytes()
        count = 60 if path.name == checkpoint_files.LIST else 4
        places = range(len(whole))
        for at in {*places[:1], *places[-1:], *chance.sample(places, min(count, len(places)))}:
            flip_a_bit(path, at, chance.randrange(8))
            assert checkpoint_files.damage(folder), f"{path}, byte {at}"
            path.write_bytes(whole)
        if whole:
            os.truncate(path, len(whole) - 1)
            assert checkpoint_files.damage(folder), f"{path}, cut"
        path.unlink()
        assert checkpoint_files.damage(folder), f"{path}, removed"
        path.write_bytes(whole)
    assert checkpoint_files.damage(folder) is None
    (folder / ".DS_Store").touch()
    assert checkpoint_files.damage(folder) is None, "what a file manager leaves is no damage"
    (folder / "params" / "more").touch()
    assert checkpoint_files.damage(folder) == "params/more is not listed in SHA256SUMS"


def test_the_list_is_one_that_sha256sum_checks(run):
    save(run, 2)
    command = ["sha256sum", "--check", "--strict", "--quiet", checkpoint_files.LIST]
    if shutil.which("sha256sum") is None:
        pytest.skip("sha256sum is not installed")
    subprocess.run(command, cwd=run.checkpoints / "2", check=True)


def test_parameters_alone_need_no_optimizer_state_and_are_checked(run):
    save(run, 2)
    remove_the_optimizer(run, 2)
    _, params = restore_params(run, 2, abstract().params)
    same_bits(params, state_at(2).params)
    largest = max((run.checkpoints / "2" / "params").rglob("*"), key=lambda path: path.stat().st_size)
    flip_a_bit(largest, largest.stat().st_size // 2)
    with pytest.raises(InputError, match=r"2 is damaged: params/.* differs from its checksum"):
        restore_params(run, 2, abstract().params)
    remove_the_list(run, 2)
    with pytest.raises(InputError, match="2 is damaged: the content of params differs from its checksum"):
        restore_params(run, 2, abstract().params)


def test_checkpoints_that_may_not_be_read_are_named_in_a_sentence(run):
    save(run, 2, 4)
    with closed(run.checkpoints), pytest.raises(InputError, match=r"/checkpoints cannot be read: Permission"):
        steps(run.checkpoints)
    with closed(run.checkpoints / "4"):
        with pytest.raises(InputError, match=r"/checkpoints/4 cannot be read: Permission denied"):
            restore_params(run, 4, abstract().params)
        restored, (said,) = restore(run)
    assert restored.step == 2
    assert said.startswith("checkpoint 4 is damaged and skipped (") and "cannot be read: Permission" in said
