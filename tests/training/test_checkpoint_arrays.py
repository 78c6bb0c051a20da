"""What is read back fits the config, and is the state that a run would have made itself."""

import json

import jax
import jax.numpy as jnp
import pytest
from orbax.checkpoint import v1 as ocp

from seqmodels.errors import InputError
from seqmodels.training import checkpoint_files
from seqmodels.training.checkpoint_arrays import checksum
from seqmodels.training.checkpoints import Checkpoints, restore_params
from seqmodels.training.optimizers import AdamW, Muon
from tests.training.saved import abstract, empty_run, restore, same_bits, save, state_at
from tests.training.tiny import tiny


@pytest.fixture
def run(tmp_path):
    return empty_run(tmp_path)


@pytest.mark.parametrize("optimizer", [AdamW(), AdamW(clip_norm=None), Muon()])
def test_the_state_of_each_optimizer_comes_back_as_a_run_makes_it(run, optimizer):
    """A list for a tuple, another named tuple or a weak type would show later: in a second compilation."""
    made = tiny(optimizer).state
    trained = jax.tree.map(lambda leaf: leaf + jnp.ones((), leaf.dtype), made)
    checkpoints = Checkpoints(run)
    checkpoints.save(1, trained, {})
    checkpoints.close()
    restored, said = restore(run, abstract(made))
    assert said == []
    same_bits(restored.state, trained)
    same_bits(*(jax.tree.map(jnp.zeros_like, state) for state in (restored.state, made)))
    keys = [leaf for leaf in jax.tree.leaves(made) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)]
    assert not keys, "dropout's keys are made from seed and step: none is saved, none can be forgotten"


def test_parameters_of_another_model_are_refused_by_name_and_form(run):
    save(run, 2)
    wider = {"layers": {0: jax.ShapeDtypeStruct((40, 31), jnp.float32), 1: abstract().params["layers"][1]}}
    found = r"params does not fit the config: layers/0 is float32 \(40, 30\) in the checkpoint and should be "
    with pytest.raises(InputError, match=found + r"float32 \(40, 31\)"):
        restore_params(run, 2, wider)
    other_type = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, jnp.float16), abstract().params)
    with pytest.raises(InputError, match=found + r"float16 \(40, 30\)"):
        restore_params(run, 2, other_type)


def test_the_state_of_another_optimizer_is_refused_and_no_damage(run):
    save(run, 2)
    state = abstract()
    with pytest.raises(InputError, match=r"opt_state does not fit the config: .* should be absent"):
        restore(run, state._replace(opt_state=(state.opt_state[0],)))
    assert (run.checkpoints / "2").is_dir()


def save_by_hand(run, step, *items, **about):
    """A checkpoint that holds some items only, as another version may have written it."""
    state = state_at(step)
    everything = {
        "params": state.params,
        "opt_state": state.opt_state,
        "loop": {"step": state.step, "tokens": state.tokens},
    }
    chosen = {item: everything[item] for item in items}
    about |= {"crc32": {item: checksum(tree) for item, tree in chosen.items()}}
    ocp.save_checkpointables(run.checkpoints / str(step), chosen, custom_metadata=about)
    checkpoint_files.write_list(run.checkpoints / str(step))


def test_a_checkpoint_without_what_a_run_goes_on_from_is_evaluated_but_not_resumed(run):
    save_by_hand(run, 2, "params", data={"row": 2})
    with pytest.raises(InputError, match="was saved without opt_state and loop, so no run can go on from it"):
        restore(run)
    _, params = restore_params(run, 2, abstract().params)
    same_bits(params, state_at(2).params)
    save_by_hand(run, 4, "params", "opt_state", "loop")
    with pytest.raises(InputError, match="was saved without the position in the data, so no run can go on"):
        restore(run)
    _, params = restore_params(run, 4, abstract().params)
    same_bits(params, state_at(4).params)


def test_a_checkpoint_from_before_files_were_listed_is_evaluated(run):
    """Its arrays have checksums of their own."""
    save_by_hand(run, 2, "params")
    (run.checkpoints / "2" / checkpoint_files.LIST).unlink()
    _, params = restore_params(run, 2, abstract().params)
    same_bits(params, state_at(2).params)
    metadata = run.checkpoints / "2" / "_CHECKPOINT_METADATA"
    known = json.loads(metadata.read_text())
    known["custom_metadata"]["crc32"]["params"] += 1
    metadata.write_text(json.dumps(known))
    with pytest.raises(InputError, match="the content of params differs from its checksum"):
        restore_params(run, 2, abstract().params)
