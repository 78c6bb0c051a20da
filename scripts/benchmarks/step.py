"""The step that training compiles, against the products of the machine, and the loop around it."""

import contextlib
import functools
import io
import tempfile
from collections.abc import Iterator
from pathlib import Path

import gin
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

import seqmodels.registry  # noqa: F401  (what the configs name)
from benchmarks.comparison import Comparison, Contender, Limit, Target
from seqmodels import config
from seqmodels.accounting import model_costs
from seqmodels.data.prefetch import Prefetch
from seqmodels.language_model import LanguageModel, build
from seqmodels.training import hardware, loop, startup
from seqmodels.training.checkpoints import Restored
from seqmodels.training.compilation import compile_step
from seqmodels.training.interruption import Interruption
from seqmodels.training.job import make_job
from seqmodels.training.log import Log
from seqmodels.training.norms import kinds_of_layers
from seqmodels.training.optimizers import AdamW
from seqmodels.training.plan import Plan
from seqmodels.training.profiler import Profiler
from seqmodels.training.recorder import Recorder
from seqmodels.training.run_directory import RunDirectory
from seqmodels.training.step import initial_state, make_dials, make_step
from seqmodels.training.terminal import Terminal

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "mixers"
VOCABULARY = 256
PRODUCT = 2048


def comparisons():
    """The tables, in the order they are printed; each is compiled when its turn comes."""
    hardware.set_precision("float32")
    yield share_of_products(width=256, depth=4, rows=8, length=512)
    yield tiny(width=32, depth=2, rows=4, length=64)
    with around_the_step(CONFIGS / "transformer.gin") as comparison:
        yield comparison


def share_of_products(*, width, depth, rows, length):
    """A Transformer's step against one large product, by FLOPs a second.

    The step's FLOPs are those of its products by formula, the whole square of logits included, and three
    times the forward ones; its other work counts for nothing. 65 % is what there is to aim for.
    """
    step, forward = _random_step(width, depth, rows, length)
    flops = forward * (1 + startup.BACKWARD)
    matrix = jnp.ones((PRODUCT, PRODUCT), jnp.float32)
    multiply = jax.jit(jnp.matmul).lower(matrix, matrix).compile()
    return Comparison(
        f"step of a Transformer, width {width}, {depth} layers, {rows} rows of {length}: {flops:.3g} FLOPs",
        (
            Contender("step", step, work=(flops / 1e9, "GFLOP")),
            Contender(
                f"product of {PRODUCT}",
                lambda: multiply(matrix, matrix).block_until_ready(),
                work=(2 * PRODUCT**3 / 1e9, "GFLOP"),
            ),
        ),
        (Target("step", (f"product of {PRODUCT}",), 0.45, "rate"),),
    )


def tiny(*, width, depth, rows, length):
    """A step too small to compute for long: what is left is dispatch."""
    step, _ = _random_step(width, depth, rows, length)
    return Comparison(
        f"step of a tiny Transformer, width {width}, {depth} layers, {rows} rows of {length}",
        (Contender("step", step, work=(rows * length, "tokens")),),
        limits=(Limit("step", 6e-3),),
    )


@contextlib.contextmanager
def around_the_step(path) -> Iterator[Comparison]:
    """The loop with its data and its log, against the same number of steps on a batch that stays.

    A turn is the steps from one line of the log to the next; nothing is saved or evaluated.
    """
    job, settings = job_of(path)
    compiled, updates = job.compile(deterministic=False).function, settings["log_every"]
    alone = steps(compiled, job.new_state(), job.place(next(job.stream)), job.dials, updates)
    work = updates * job.rows * job.row_length, "tokens"
    units, _ = startup.units(job, settings["data"])
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "config.gin").touch()
        with contextlib.redirect_stdout(io.StringIO()):  # the log keeps its terminal, which stays unseen
            terminal = Terminal(0, settings["steps"])
            log = stack.enter_context(contextlib.closing(Log(RunDirectory(folder), 0, terminal)))
        batches = stack.enter_context(Prefetch(job.stream))
        looped = _loop(job, compiled, batches, log, units, updates)
        yield Comparison(
            f"{updates} steps of configs/mixers/{path.name}, with and without the loop around them",
            (Contender("loop, data, log", looped, work=work), Contender("steps alone", alone, work=work)),
            (Target("loop, data, log", ("steps alone",), 0.97),),
        )


class _NothingSaved:
    """In the place of a run's checkpoints."""

    def save(self, *_):
        """Saves nothing."""

    def check(self):
        """Nothing can have gone wrong."""


def _loop(job, compiled, batches, log, units, updates):
    """Runs the training loop for some updates, from where it was left before."""
    step, state = 0, job.new_state()
    interruption, profiler = Interruption(), Profiler(None, Path())

    def update(before, batch):
        nonlocal state
        state, metrics = compiled(before, job.place(batch), job.dials)
        return state, metrics

    def run():
        nonlocal step
        plan = Plan(step + updates, updates, step + updates, None, None)
        step = loop.run(
            Restored(step, state, {}),
            plan=plan,
            batches=batches,
            update=update,
            evaluate=lambda *_: {},
            evaluated=True,
            checkpoints=_NothingSaved(),
            recorder=Recorder(log, units, plan, step=step, tokens=0),
            interruption=interruption,
            profiler=profiler,
        )

    return run


def steps(compiled, state, batch, dials, updates=1):
    """Runs updates on one batch and waits for the last."""

    def run():
        nonlocal state
        for _ in range(updates):
            state, _ = compiled(state, batch, dials)
        jax.block_until_ready(state)

    return run


def _random_step(width, depth, rows, length):
    """One update of a Transformer on random tokens, and the forward FLOPs of it by formula."""
    model = functools.partial(LanguageModel, width=width, depth=depth)
    graphdef, params, decays = build(model, VOCABULARY)
    update_at = functools.partial(AdamW().build, decays, 1000)
    tokens = np.random.default_rng(0).integers(VOCABULARY, size=(2, 1, rows, length), dtype=np.int32)
    batch = {
        "tokens": tokens[0],
        "targets": tokens[1],
        "segment_ids": np.ones_like(tokens[0]),
        "loss_weights": np.ones(tokens[0].shape, np.float32),
    }
    begun = batch, initial_state(params, update_at()), make_dials(0, 1e-3)
    batch, state, dials = jax.device_put(begun)
    step = make_step(graphdef, kinds_of_layers(graphdef, params), update_at)
    compiled = compile_step(step, state, batch, dials, deterministic=False).function
    forward = rows * length * model_costs(nnx.merge(graphdef, params), length).flops_per_token
    return steps(compiled, state, batch, dials), forward


def job_of(path):
    """The job of a config with its data prepared, and the settings of `train`."""
    config.load([path])
    settings = gin.get_bindings("train")
    settings["data"].prepare()
    names = ("model", "data", "optimizer", "steps", "batch_size", "row_length")
    return make_job(**{name: settings[name] for name in names}, seed=0, accumulation=1), settings
