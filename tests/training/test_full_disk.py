"""A disk that is full at some file of a save: nothing saved is lost, and the same command goes on."""

import pytest

from seqmodels.training.checkpoints import steps
from seqmodels.training.run_directory import RunDirectory
from tests.small_run import ROOT, train_process, write_config
from tests.training.saved import content, files

SETTINGS = "train.checkpoint_every = 3\ntrain.evaluate_every = None\nLanguageModel.width = 64\n"


def train_with_files_up_to(size, folder, *arguments):
    """train.py in a process whose files cannot grow beyond `size` bytes."""
    script = folder / "limited.py"
    script.write_text(
        f"import resource, runpy\nresource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))\n"
        f"runpy.run_path({str(ROOT / 'train.py')!r}, run_name='__main__')\n"
    )
    # A compiled program that is cached here is cut short: others must not find it.
    return train_process(*arguments, script=script, JAX_COMPILATION_CACHE_DIR=str(folder / "xla"))


@pytest.mark.slow
def test_a_disk_that_fills_up_costs_the_save_alone_and_the_same_command_goes_on(tmp_path):
    config = write_config(tmp_path, SETTINGS)
    assert train_process(config, "--run-dir", tmp_path / "r", "--gin.train.steps=3").returncode == 0
    run = RunDirectory(tmp_path / "r")
    before = content(run, 3)
    *_, parameters, optimizer_state = (path.stat().st_size for path in files(run, 3))
    for size in (int(0.9 * optimizer_state), int(0.9 * parameters), 12_000):
        done = train_with_files_up_to(size, tmp_path, config, "--run-dir", run.path)
        assert done.returncode == 4, (size, done.stderr)
        assert done.stderr.startswith("error: checkpoint 6 was not written to "), done.stderr
        assert done.stderr.count("\n") == 1
        assert steps(run.checkpoints) == [3] and content(run, 3) == before
    ended = train_process(config, "--run-dir", run.path)
    assert ended.returncode == 0 and "going on from step 3: update 4 of 6" in ended.stdout
    assert steps(run.checkpoints) == [3, 6]
    assert [line["step"] for line in run.metrics()] == [1, 2, 3, 4, 5, 6]
