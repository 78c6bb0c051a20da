"""A checkpoint that is damaged at random: never loaded as if it were whole, never in the way of its run."""

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from seqmodels.errors import InputError
from seqmodels.training.checkpoints import Checkpoints, Restored, restore_params
from seqmodels.training.run_directory import RunDirectory
from seqmodels.training.step import TrainState

OLDER, NEWER = 2, 4
FELL_BACK = "skipped with a sentence, the older one restored"
UNHARMED = "restored, equal to the bit"
SILENT, LOST = "LOADED SILENTLY", "RUN LOST"


def strike(damages: int, folder: Path, seed: int = 0, say: Callable[[str], None] = print) -> Counter[str]:
    """Damages the newer of two checkpoints, so many times over, each time from the whole ones on.

    Returns:
        How often it came to FELL_BACK, UNHARMED, SILENT and LOST.
    """
    whole = _run(folder / "whole")
    checkpoints = Checkpoints(whole)
    for step in (OLDER, NEWER):
        checkpoints.save(step, _state(step), _position(step))
    checkpoints.close()
    chance, outcomes = random.Random(seed), Counter()
    for number in range(1, damages + 1):
        run = RunDirectory(shutil.copytree(whole.path, folder / f"damage{number}"))
        newest = run.checkpoints / str(NEWER)
        file = chance.choice(sorted(path for path in newest.rglob("*") if path.is_file()))
        done = damage(file, chance)
        outcome, why = _outcome(run)
        outcomes[outcome] += 1
        name = str(file.relative_to(newest))[-44:]
        say(f"{number:>4}  {name:<44} {done:<36} {outcome}{why}")
        if outcome not in (SILENT, LOST):
            shutil.rmtree(run.path)
    return outcomes


def damage(file: Path, chance: random.Random) -> str:
    """Deletes a file, cuts it short at a random byte, or flips one of its bits; returns what it did."""
    size = file.stat().st_size
    kind = chance.choice(("deleted", "cut", "flipped")) if size else "deleted"
    place = chance.randrange(max(1, size))
    if kind == "deleted":
        file.unlink()
        return kind
    if kind == "cut":
        os.truncate(file, place)
        return f"cut to {place:,} of {size:,} bytes"
    bit, content = chance.randrange(8), bytearray(file.read_bytes())
    content[place] ^= 1 << bit
    file.write_bytes(content)
    return f"bit {bit} of byte {place:,} flipped"


def _outcome(run: RunDirectory) -> tuple[str, str]:
    """What becomes of a run with a damaged checkpoint when it is evaluated, goes on and saves."""
    said: list[str] = []
    try:
        try:
            _, params = restore_params(run, NEWER, _abstract().params)
        except InputError:
            params = None
        if params is not None and not _equal(params, _state(NEWER).params):
            return SILENT, ": in an evaluation"
        checkpoints = Checkpoints(run)
        restored = checkpoints.restore(_abstract(), said.append)
        if restored is None or not _equal(restored, _expected(restored.step)):
            return (LOST, ": from step 0") if restored is None else (SILENT, f": step {restored.step}")
        checkpoints.save(NEWER + restored.step, _state(NEWER + restored.step), {})
        checkpoints.close()
    except Exception as error:  # whatever it is, a user could not go on
        return LOST, f": {type(error).__name__}: {error}"
    if restored.step == NEWER:
        return UNHARMED, ""
    return (FELL_BACK, "") if len(said) == 1 else (LOST, f": said {said}")


def _run(path: Path) -> RunDirectory:
    path.mkdir(parents=True)
    (path / "config.gin").touch()
    return RunDirectory(path)


def _state(step: int) -> TrainState:
    """A state whose every number tells the step; lists of layers have integer keys, as in a model."""
    numbers = np.random.default_rng(step)

    def normal(*shape: int) -> jax.Array:
        return jnp.asarray(numbers.normal(size=shape), jnp.float32)

    def tree() -> dict:
        return {"embedding": normal(61, 32), "layers": {0: normal(32, 32), 1: normal(32)}}

    moments = (tree(), tree(), jnp.asarray(step, jnp.int32))
    return TrainState(tree(), moments, jnp.asarray(step, jnp.int32), jnp.asarray([1, step], jnp.int32))


def _position(step: int) -> dict:
    return {"source": {"file": 0, "record": 17 * step}, "window": 3, "used": 5 + step}


def _expected(step: int) -> Restored:
    return Restored(step, _state(step), _position(step))


def _abstract() -> TrainState:
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    return jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding), _state(0)
    )


def _equal(first: object, second: object) -> bool:
    """Whether two trees have the same leaves, to the bit."""
    if jax.tree.structure(first) != jax.tree.structure(second):
        return False
    pairs = zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)
