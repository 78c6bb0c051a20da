"""One update: the loss over the whole batch, whichever way its rows are parted."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from seqmodels.training.batches import place
from seqmodels.training.mesh import by_rows, make_mesh, replicated
from seqmodels.training.optimizers import AdamW
from seqmodels.training.step import TOKENS_PER_UNIT, count_tokens
from tests.training.tiny import in_micro_batches, random_batch, tiny

# A large epsilon: without it Adam turns rounding errors in tiny gradients into steps of full size.
OPTIMIZER = AdamW(learning_rate=1e-2, schedule="constant", warmup_steps=2, epsilon=1e-3)


@pytest.fixture(scope="module")
def made():
    """One model and step for the tests below, which share its two compiled shapes."""
    return tiny(OPTIMIZER)


def short_and_long_row() -> dict[str, np.ndarray]:
    """Two rows with 2 and 16 targets; the rest of the first is padding."""
    batch = random_batch(2, 16)
    batch["segment_ids"][0, 2:] = 0
    batch["loss_weights"][0, 2:] = 0
    return batch


def close(first, second, tolerance=1e-5):
    for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        np.testing.assert_allclose(a, b, atol=tolerance, rtol=tolerance)


def test_the_loss_is_the_sum_of_token_losses_over_the_sum_of_weights(made):
    """Against logits and float64: a mean of row means would count the short row's tokens eightfold."""
    batch = short_and_long_row()
    model = nnx.merge(made.graphdef, made.state.params)
    logits, _ = model(batch["tokens"], segment_ids=batch["segment_ids"])
    logits = np.asarray(logits, np.float64)
    nll = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, batch["targets"][..., None], -1)[..., 0]
    _, metrics = made.step(made.state, in_micro_batches(batch, 1))
    assert metrics.loss == pytest.approx((nll * batch["loss_weights"]).sum() / 18, rel=1e-5)
    assert count_tokens(metrics.tokens) == 18


def test_accumulation_changes_neither_loss_nor_gradient_nor_parameters(made):
    """Rows of 2 and 16 targets, together and one by one, for three updates; a mean of means fails here."""
    batch = short_and_long_row()
    whole, parted = made.state, made.state
    for _ in range(3):
        whole, of_whole = made.step(whole, in_micro_batches(batch, 1))
        parted, of_parted = made.step(parted, in_micro_batches(batch, 2))
        close(of_whole, of_parted)
    close(whole.params, parted.params)


def test_a_micro_batch_without_targets_adds_nothing(made):
    """Dividing by its own count would be 0 / 0."""
    batch = random_batch(2, 16)
    batch["loss_weights"][0] = 0
    _, together = made.step(made.state, in_micro_batches(batch, 1))
    _, parted = made.step(made.state, in_micro_batches(batch, 2))
    close(together, parted)


def test_a_batch_without_targets_has_loss_and_gradient_zero(made):
    batch = random_batch(2, 16)
    batch["loss_weights"][:] = 0
    state, metrics = made.step(made.state, in_micro_batches(batch, 1))
    assert metrics.loss == 0 and metrics.gradient_norm == 0
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.params))


def test_the_schedule_counts_updates_whatever_the_accumulation(made):
    """Counted in micro-batches the warm-up of two updates would be over after one."""
    state, rates = made.state, []
    for _ in range(3):
        state, metrics = made.step(state, in_micro_batches(random_batch(2, 16), 2))
        rates.append(float(metrics.learning_rate))
    assert rates == pytest.approx([0.005, 0.01, 0.01])
    assert state.step == 3


@pytest.fixture(scope="module")
def skipping():
    """As `made`, with updates that are not finite left out."""
    return tiny(OPTIMIZER, skip_nonfinite=True)


def test_a_window_with_a_micro_batch_that_is_not_finite_is_skipped_whole(skipping):
    """The average over its other micro-batches would be an update that nobody knows to be on fewer tokens."""
    batch = in_micro_batches(random_batch(4, 16), 4)
    poisoned = {**batch, "loss_weights": batch["loss_weights"].copy()}
    poisoned["loss_weights"][1] = np.nan
    before, _ = skipping.step(skipping.state, batch)
    after, metrics = skipping.step(before, poisoned)
    assert not np.isfinite(metrics.loss) and metrics.skipped == 1
    kept = [jax.tree.leaves((state.params, state.opt_state)) for state in (before, after)]
    for was, leaf in zip(*kept, strict=True):
        np.testing.assert_array_equal(leaf, was)
    assert after.step == 2 and count_tokens(after.tokens) == 128, "data and step go on"


def test_a_skipped_update_is_none_in_the_schedule_and_compiles_nothing(skipping):
    """The first update made has the rate of the first, and so on: as if the others had not been there."""
    batch = in_micro_batches(random_batch(4, 16), 4)
    poisoned = {**batch, "loss_weights": np.full_like(batch["loss_weights"], np.inf)}
    state, plain = skipping.state, skipping.state
    rates, skipped = [], []
    for rows in (poisoned, poisoned, batch, batch, batch):
        state, metrics = skipping.step(state, rows)
        rates.append(float(metrics.learning_rate))
        skipped.append(int(metrics.skipped))
    assert rates == pytest.approx([0.005, 0.005, 0.005, 0.01, 0.01]) and skipped == [1, 2, 2, 2, 2]
    assert skipping.step._cache_size() == 1
    for _ in range(3):
        plain, _ = skipping.step(plain, batch)
    for leaf, wanted in zip(jax.tree.leaves(state.params), jax.tree.leaves(plain.params), strict=True):
        np.testing.assert_array_equal(leaf, wanted)


def test_scored_positions_give_the_loss_of_the_whole_row(made):
    """Recall rows gather their few scored positions before the head; weights elsewhere are 0."""
    batch = random_batch(2, 16)
    scored = np.array([[3, 7, 15], [0, 8, 9]], np.int32)
    batch["loss_weights"][:] = 0
    np.put_along_axis(batch["loss_weights"], scored, 1.0, axis=1)
    _, whole = made.step(made.state, in_micro_batches(batch, 1))
    _, gathered = made.step(made.state, in_micro_batches({**batch, "scored": scored}, 1))
    close(whole, gathered)


def test_dropout_masks_differ_by_step_and_micro_batch_and_repeat_for_the_same_step():
    """The same row in both micro-batches, of which only one counts: equal losses are equal masks."""
    made, row = tiny(AdamW(learning_rate=0.0), dropout=0.5), random_batch(1, 16)

    def loss(state, counted):
        batch = {name: np.stack([rows, rows]) for name, rows in row.items()}
        batch["loss_weights"][1 - counted] = 0
        return made.step(state, batch)[1].loss

    later = made.state._replace(step=jnp.ones((), jnp.int32))
    assert loss(made.state, 0) == loss(made.state, 0)
    assert loss(made.state, 0) != loss(later, 0), "step 2 has the masks of step 1"
    assert loss(made.state, 0) != loss(made.state, 1), "micro-batch 2 has the masks of micro-batch 1"


def test_devices_change_nothing(made):
    """Rows with few and many targets on different devices: a mean of the devices' means differs."""
    batch = random_batch(16, 16)
    batch["loss_weights"][:8, 4:] = 0
    mesh = make_mesh()
    assert mesh.size == 8
    placed = place(batch, 2, by_rows(mesh))
    for shard in placed["tokens"].addressable_shards:
        assert shard.data.shape == (2, 1, 16), "each device holds its own rows alone"
    spread, single = jax.device_put(made.state, replicated(mesh)), made.state
    for _ in range(2):
        spread, of_spread = made.step(spread, placed)
        single, of_single = made.step(single, in_micro_batches(batch, 2))
        close(jax.device_get(of_spread), jax.device_get(of_single))
    close(jax.device_get(spread.params), jax.device_get(single.params))


def test_memory_is_that_of_a_micro_batch_and_the_state_is_donated():
    """Eight micro-batches of 2 rows need little more than one of them: a gradient buffer, no activations."""
    made = tiny(width=64)
    parameters, state = (
        sum(leaf.nbytes for leaf in jax.tree.leaves(tree)) for tree in (made.state.params, made.state)
    )

    def memory(rows, micro_batches):
        batch = in_micro_batches(random_batch(rows, 128), micro_batches)
        step = jax.jit(made.step.__wrapped__, donate_argnums=0)
        return step.lower(made.state, batch).compile().memory_analysis()

    small, accumulated, large = memory(2, 1), memory(16, 8), memory(16, 1)
    assert accumulated.temp_size_in_bytes <= small.temp_size_in_bytes + 2 * parameters
    assert accumulated.temp_size_in_bytes < large.temp_size_in_bytes / 2
    # Without donation the old and the new state lie in memory side by side.
    assert small.alias_size_in_bytes >= 0.99 * state


@pytest.mark.slow
def test_dropout_masks_go_by_row_and_not_by_device():
    """A mask of its own for each device, or one for all of them, gives other losses than one device."""
    made, batch, mesh = tiny(OPTIMIZER, dropout=0.5), random_batch(8, 16), make_mesh()
    _, spread = made.step(jax.device_put(made.state, replicated(mesh)), place(batch, 1, by_rows(mesh)))
    _, single = made.step(made.state, in_micro_batches(batch, 1))
    close(spread.loss, single.loss)
    same = {name: np.repeat(rows[:1], 8, axis=0) for name, rows in batch.items()}
    losses = []
    for counted in (0, 7):
        same["loss_weights"] = np.eye(8, dtype=np.float32)[counted][:, None] * np.ones((8, 16), np.float32)
        losses.append(made.step(made.state, in_micro_batches(same, 1))[1].loss)
    assert losses[0] != losses[1], "equal rows have one mask"


def test_tokens_are_counted_beyond_what_int32_holds(made):
    before = 3 * 2**31 - 7
    tokens = jnp.array([before // TOKENS_PER_UNIT, before % TOKENS_PER_UNIT], jnp.int32)
    batch = in_micro_batches(random_batch(2, 16), 1)
    state, metrics = made.step(made.state._replace(tokens=tokens), batch)
    assert count_tokens(state.tokens) == count_tokens(metrics.tokens) == before + 32


def test_norms_are_reported_by_kind_of_layer(made):
    state, metrics = made.step(made.state, in_micro_batches(random_batch(2, 16), 1))
    assert set(metrics.gradient_norms) == {"SoftmaxAttention", "feed_forward", "norm", "embedding"}
    table = np.asarray(state.params["embedding"]["table"], np.float64)
    assert metrics.parameter_norms["embedding"] == pytest.approx(np.sqrt((table**2).sum()), rel=1e-6)
    moved = table - np.asarray(made.state.params["embedding"]["table"], np.float64)
    assert metrics.update_norms["embedding"] == pytest.approx(np.sqrt((moved**2).sum()), rel=1e-3)
    whole = np.sqrt(sum(float(norm) ** 2 for norm in metrics.gradient_norms.values()))
    assert metrics.gradient_norm == pytest.approx(whole, rel=1e-5)


def test_an_untied_head_is_a_kind_of_its_own():
    assert tiny(tie_embeddings=False).kinds["unembedding"]["kernel"] == "head"
