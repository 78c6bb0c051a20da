"""A disk that is full at some file of a save: nothing saved is lost, and the same command goes on."""

import pytest

from seqmodels.training.checkpoints import steps
from seqmodels.training.run_directory import RunDirectory
from tests.small_run import ROOT, train_process, write_config
from tests.training.saved import content, files

SETTINGS = "train.checkpoint_every = 3\ntrain.evaluate_every = None\nLanguageModel.width = 64\n"
SETTINGS += "AdamW.schedule = 'constant'\n"


def train_with_files_up_to(size, folder, *arguments):
    """train.py in a process whose files cannot grow beyond `size` bytes."""
    script = folder / "limited.py"
    script.write_text(
        f"import resource, runpy\nresource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))\n"
        f"runpy.run_path({str(ROOT / 'train.py')!r}, run_name='__main__')\n"
    )
    return train_process(*arguments, script=script)


@pytest.mark.slow
def test_a_disk_that_fills_up_costs_the_save_alone_and_the_same_command_goes_on(tmp_path):
    config = write_config(tmp_path, SETTINGS)
    straight = train_process(config, "--run-dir", tmp_path / "straight")
    assert straight.returncode == 0, straight.stderr
    assert train_process(config, "--run-dir", tmp_path / "r", "--gin.train.steps=3").returncode == 0
    run = RunDirectory(tmp_path / "r")
    before = content(run, 3)
    sizes = [path.stat().st_size for path in files(run, 3)]
    for size in sorted({sizes[-1] - 1, sizes[-2] - 1, sizes[len(sizes) // 2]}, reverse=True):
        done = train_with_files_up_to(size, tmp_path, config, "--run-dir", run.path)
        assert done.returncode == 4, (size, done.stderr)
        assert done.stderr.startswith("error: checkpoint 6 was not written to "), done.stderr
        assert done.stderr.count("\n") == 1
        assert steps(run.checkpoints) == [3] and content(run, 3) == before
    assert train_process(config, "--run-dir", run.path).returncode == 0
    losses = [
        [line["train/loss"] for line in RunDirectory(tmp_path / name).metrics()] for name in ("straight", "r")
    ]
    assert losses[0][3:] == losses[1][3:]
