"""The step that training compiles, against the products of the machine, and the loop around it."""

import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path

import gin
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

import seqmodels.registry  # noqa: F401  (what the configs name)
from benchmarks.comparison import Comparison, Contender, Limit, Target
from benchmarks.loops import looped
from seqmodels import config
from seqmodels.accounting import model_costs
from seqmodels.language_model import LanguageModel, build
from seqmodels.training import hardware, startup
from seqmodels.training.compilation import compile_step
from seqmodels.training.job import make_job
from seqmodels.training.norms import kinds_of_layers
from seqmodels.training.optimizers import AdamW
from seqmodels.training.step import initial_state, make_dials, make_step

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
    with looped(job, compiled, units, updates=updates, log_every=updates, saves=False) as run:
        yield Comparison(
            f"{updates} steps of configs/mixers/{path.name}, with and without the loop around them",
            (Contender("loop, data, log", run, work=work), Contender("steps alone", alone, work=work)),
            (Target("loop, data, log", ("steps alone",), 0.97),),
        )


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


def job_of(path, flags=()):
    """The job of a config with its data prepared, and the settings of `train`; flags: NAME=VALUE."""
    config.load([path], flags)
    settings = gin.get_bindings("train")
    settings["data"].prepare()
    names = ("model", "data", "optimizer", "steps", "batch_size", "row_length")
    return make_job(**{name: settings[name] for name in names}, seed=0, accumulation=1), settings
