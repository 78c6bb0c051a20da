"""What a config comes to before anything is computed: shapes, functions, and where arrays live."""

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import jax
import numpy as np
from flax import nnx
from jax.sharding import Mesh

from seqmodels.accounting import device_memory, tree_bytes
from seqmodels.errors import InputError
from seqmodels.language_model import LanguageModel, ModelClass, abstract, build
from seqmodels.training import batches
from seqmodels.training.compilation import Compiled, compile_step
from seqmodels.training.mesh import by_rows, copy_everywhere, make_mesh, replicated
from seqmodels.training.norms import kinds_of_layers
from seqmodels.training.optimizers import Optimizer, Update
from seqmodels.training.step import Dials, TrainState, initial_state, make_dials, make_step


class DataSource(Protocol):
    """What `train.data` refers to: where the batches come from.

    Attributes:
        kind: "text", "recall" or "mixture", which decides how the model is evaluated.
        vocab_size: token ids lie below it.
        fingerprint: a hash of content, tokenizer and settings.
    """

    kind: str
    vocab_size: int
    fingerprint: str

    def prepare(self, cache_dir: Path | None = None, say: Callable[[str], None] = print) -> None:
        """Makes the rest available; cheap when it was done before."""

    def describe(self) -> dict[str, Any]:
        """What the data is, and how much of it there is."""

    def stream(
        self, batch_size: int, row_length: int, seed: int, process_index: int = 0, process_count: int = 1
    ) -> Any:
        """Training batches without end."""


@dataclasses.dataclass(frozen=True)
class Job:
    """A model, its optimizer and its data, ready to be compiled.

    Attributes:
        graphdef: of the model.
        params: their shapes and dtypes.
        decays: which of them take weight decay; the same tree.
        state: shapes, dtypes and shardings of the training state.
        seed: of parameters, data order and dropout.
        dials: the seed and the learning rate as arguments of the step, on the devices.
        update_at: the optimizer, for a peak of the learning rate.
        make_state: makes the state of step 0, from given parameters or from a seed.
        step: `(state, batch, dials) -> (state, metrics)`, not compiled.
        batch: shapes, dtypes and shardings of a batch.
        make_stream: makes the batches of a seed.
        stream: those of this seed, at their start.
        mesh: the devices.
        accumulation: micro-batches in a batch.
        vocab_size: ids lie below it.
    """

    graphdef: nnx.GraphDef
    params: Any
    decays: Any
    state: TrainState
    seed: int
    dials: Dials
    update_at: Callable[[Any], Update]
    make_state: Callable[[Any | None, int], TrainState]
    step: Callable
    batch: dict[str, jax.ShapeDtypeStruct]
    make_stream: Callable[[int], Any]
    stream: Any
    mesh: Mesh
    accumulation: int
    vocab_size: int

    @property
    def model(self) -> LanguageModel:
        """The model with shapes in place of arrays."""
        return nnx.merge(self.graphdef, self.params)

    def learning_rate(self, state: TrainState) -> float:
        """That of the update which follows a state."""
        peak = jax.device_get(self.dials.learning_rate)
        update = self.update_at(peak)
        return float(jax.jit(update.schedule)(jax.device_get(update.count(state.opt_state))))

    @property
    def rows(self) -> int:
        """Rows in a batch, over all micro-batches, devices and processes."""
        return self.accumulation * self.batch["tokens"].shape[1]

    @property
    def row_length(self) -> int:
        """Tokens in a row."""
        return self.batch["tokens"].shape[2]

    def variant(self, seed: int, learning_rate: float) -> "Job":
        """The job of another seed and learning rate, which the same compiled step serves."""
        dials = copy_everywhere(make_dials(seed, learning_rate), self.mesh)
        return dataclasses.replace(self, seed=seed, dials=dials, stream=self.make_stream(seed))

    def new_state(self, initial: Any | None = None) -> TrainState:
        """The state of step 0, from given parameters or from the seed."""
        return self.make_state(initial, self.seed)

    def compile(self, *, deterministic: bool) -> Compiled:
        """The step, compiled."""
        return compile_step(self.step, self.state, self.batch, self.dials, deterministic=deterministic)

    def place(self, batch: dict[str, np.ndarray]) -> dict[str, jax.Array]:
        """Checks the ids of this process's rows and puts them on the devices."""
        batches.check_ids(batch, self.vocab_size)
        return batches.place(batch, self.accumulation, by_rows(self.mesh))


def make_job(
    model: ModelClass,
    data: DataSource,
    optimizer: Optimizer,
    *,
    steps: int,
    batch_size: int,
    row_length: int,
    seed: int,
    accumulation: int,
    skip_nonfinite: bool = False,
) -> Job:
    """Resolves shapes and checks that they fit; `data` is prepared. No process waits for another.

    Raises:
        InputError: rows that do not spread over the devices, too little data, ids outside the vocabulary,
            settings that the model refuses.
    """
    batches.check_rows(batch_size, accumulation, jax.device_count())
    batches.check_size(batch_size, row_length, jax.process_count())
    mesh = make_mesh()
    graphdef, params, decays = abstract(model, data.vocab_size)
    check_memory(params)
    longest = nnx.merge(graphdef, params).max_positions
    if longest is not None and row_length > longest:
        raise InputError(
            f"train.row_length = {row_length} is longer than LanguageModel.max_positions = {longest}."
        )

    def make_stream(seed: int) -> Any:
        return data.stream(batch_size, row_length, seed, jax.process_index(), jax.process_count())

    stream = make_stream(seed)
    update_at = functools.partial(optimizer.build, decays, steps)
    update = update_at(optimizer.learning_rate)

    def on_devices(leaf: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=replicated(mesh))

    def make_state(initial: Any | None, seed: int) -> TrainState:
        if initial is None:
            _, initial, _ = build(model, data.vocab_size, seed)
        return jax.device_put(initial_state(initial, update), replicated(mesh))

    state = jax.eval_shape(lambda leaves: initial_state(leaves, update), params)
    return Job(
        graphdef=graphdef,
        params=params,
        decays=decays,
        state=jax.tree.map(on_devices, state),
        seed=seed,
        dials=copy_everywhere(make_dials(seed, optimizer.learning_rate), mesh),
        update_at=update_at,
        make_state=make_state,
        step=make_step(graphdef, kinds_of_layers(graphdef, params), update_at, skip_nonfinite=skip_nonfinite),
        batch=_batch_shapes(stream, data.vocab_size, accumulation, mesh),
        make_stream=make_stream,
        stream=stream,
        mesh=mesh,
        accumulation=accumulation,
        vocab_size=data.vocab_size,
    )


def check_memory(params: Any) -> None:
    """Raises InputError where parameters, gradients and two means of these exceed a device's memory."""
    needed, memory = 4 * tree_bytes(params), device_memory()
    if needed > memory:
        count = sum(leaf.size for leaf in jax.tree.leaves(params))
        raise InputError(
            f"the model has {count:,} parameters, which take {needed / 2**30:,.1f} GiB in training; there "
            f"are {memory / 2**30:,.1f}: lower LanguageModel.width, its depth or the sizes of its mixers."
        )


def _batch_shapes(
    stream: Any, vocab_size: int, accumulation: int, mesh: Mesh
) -> dict[str, jax.ShapeDtypeStruct]:
    """Those of the first batch, whose ids are checked; the stream stays where it was."""
    position = stream.state()
    batch = next(stream)
    stream.restore(position)
    batches.check_ids(batch, vocab_size)

    def shape(rows: np.ndarray) -> jax.ShapeDtypeStruct:
        micro = rows.shape[0] * jax.process_count() // accumulation
        return jax.ShapeDtypeStruct(
            (accumulation, micro, *rows.shape[1:]), rows.dtype, sharding=by_rows(mesh)
        )

    return {name: shape(rows) for name, rows in batch.items()}
