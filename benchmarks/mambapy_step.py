"""A training step of two Mamba layers against mambapy's, which is PyTorch: python benchmarks/mambapy_step.py

Both start from the same parameters, see the same batch, and must reach the same losses.
"""

import argparse
import sys
from pathlib import Path

# The project from its checkout, and the timing that scripts/benchmark.py uses.
sys.path.insert(1, str(Path(__file__).resolve().parent.parent))
sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "scripts"))

import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch
from benchmarks.comparison import Comparison, Contender, Target, machine, report
from flax import nnx
from mambapy import mamba

from seqmodels.block import Block
from seqmodels.layer_stack import LayerStack
from seqmodels.mixers import Mamba

WIDTH, LAYERS, ROWS = 256, 2, 2
LEARNING_RATE, WEIGHT_DECAY = 1e-3, 1e-2
CHECKED_UPDATES = 3

# mambapy's parameters by name, where they are here, and whether they lie the other way round.
NAMES = {
    "norm.weight": ("mixer_norm", "scale"),
    "mixer.in_proj.weight": ("mixer", "input", "kernel"),
    "mixer.conv1d.weight": ("mixer", "convolution", "kernel"),
    "mixer.conv1d.bias": ("mixer", "convolution", "bias"),
    "mixer.x_proj.weight": ("mixer", "selection", "kernel"),
    "mixer.dt_proj.weight": ("mixer", "dt_kernel"),
    "mixer.dt_proj.bias": ("mixer", "dt_bias"),
    "mixer.A_log": ("mixer", "A_log"),
    "mixer.D": ("mixer", "D"),
    "mixer.out_proj.weight": ("mixer", "output", "kernel"),
}
UNTURNED = ("mixer.A_log",)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0], allow_abbrev=False)
    parser.add_argument("--lengths", type=int, nargs="+", default=[512, 2048], help="tokens in a row")
    parser.add_argument("--rounds", type=int, default=10, help="timed rounds a length (default: 10)")
    options = parser.parse_args()
    print(f"{machine()}, PyTorch {torch.__version__} ({torch.get_num_threads()} threads)")
    for length in options.lengths:
        lines, _ = report(comparison(length), options.rounds)
        print("", *lines, sep="\n", flush=True)


def comparison(length: int) -> Comparison:
    """Forward, backward and AdamW's update, on rows of `length` vectors.

    Raises:
        ValueError: the two have different numbers of parameters, or reach different losses.
    """
    torch.manual_seed(0)
    theirs = mamba.Mamba(mamba.MambaConfig(d_model=WIDTH, n_layers=LAYERS))
    x, target = np.random.default_rng(0).normal(size=(2, ROWS, length, WIDTH)).astype(np.float32)
    ours = jax_step(theirs, x, target)
    peer = torch_step(theirs, x, target)
    for update in range(CHECKED_UPDATES):
        losses = ours(), peer()
        if not np.isclose(*losses, rtol=1e-4):
            raise ValueError(f"update {update}: the losses are {losses[0]} here and {losses[1]} in mambapy")
    parameters = sum(parameter.numel() for parameter in theirs.parameters())
    return Comparison(
        f"step of {LAYERS} Mamba layers, width {WIDTH}, {ROWS} rows of {length}, {parameters:,} parameters",
        (Contender("seqmodels", ours), Contender("mambapy", peer)),
        (Target("seqmodels", ("mambapy",), 1.5),),
    )


def torch_step(model, x, target):
    """A function that makes one update and returns the loss before it."""
    x, target = torch.from_numpy(x), torch.from_numpy(target)
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=True)

    def run():
        optimizer.zero_grad()
        loss = torch.mean(torch.square(model(x) - target))
        loss.backward()
        optimizer.step()
        return loss.item()

    return run


def jax_step(theirs, x, target):
    """The same, from mambapy's parameters."""
    rngs = nnx.Rngs(0)

    def make_block(layer):
        mixer = Mamba(WIDTH, layer=layer, layers=LAYERS, rngs=rngs)
        return Block(WIDTH, mixer, None, norm="rms", dropout=0.0)

    graphdef, params = nnx.split(LayerStack(make_block, LAYERS, period=1, scan=False, remat=False), nnx.Param)
    params = converted(theirs, nnx.to_pure_dict(params))
    optimizer = optax.adamw(LEARNING_RATE, weight_decay=WEIGHT_DECAY)

    def loss_of(params, x, target):
        y, _ = nnx.merge(graphdef, params)(x, segment_ids=None, states=None, key=None)
        return jnp.mean(jnp.square(y - target))

    def step(params, opt_state, x, target):
        loss, gradients = jax.value_and_grad(loss_of)(params, x, target)
        updates, opt_state = optimizer.update(gradients, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss

    x, target = jnp.asarray(x), jnp.asarray(target)
    state = params, optimizer.init(params)
    compiled = jax.jit(step, donate_argnums=(0, 1)).lower(*state, x, target).compile()

    def run():
        nonlocal state
        *state, loss = jax.block_until_ready(compiled(*state, x, target))
        return float(loss)

    return run


def converted(theirs, params):
    """mambapy's parameters in the tree of `params`, whose leaves they must match one for one."""
    places = {}
    for name, value in theirs.named_parameters():
        _, layer, name = name.split(".", 2)
        array = value.detach().numpy().copy()
        array = array[:, 0] if name == "mixer.conv1d.weight" else array
        places["blocks", int(layer), *NAMES[name]] = array if name in UNTURNED else array.T
    leaves, tree = jax.tree.flatten_with_path(params)
    paths = [tuple(key.key for key in path) for path, _ in leaves]
    shapes = {path: leaf.shape for path, (_, leaf) in zip(paths, leaves, strict=True)}
    if shapes != {path: array.shape for path, array in places.items()}:
        raise ValueError("mambapy has other parameters than the Mamba layers here")
    return tree.unflatten(jnp.asarray(places[path]) for path in paths)


if __name__ == "__main__":
    main()
