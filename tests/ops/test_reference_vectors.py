"""The ops against outputs and gradients of independent implementations, stored in float64."""

import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqmodels.ops import LinearAttentionState, causal_conv, linear_attention, linear_recurrence

FORWARD, GRADIENT = 2e-5, 1e-4


def _close(got, want, bound, name):
    size = max(np.abs(want).max(initial=0), 1e-30)
    difference = np.abs(np.asarray(got, np.float64) - want).max(initial=0) / size
    assert difference <= bound, f"{name}: largest difference {difference:.2e} of the largest magnitude"


def check(file, run, names):
    """run: inputs by name -> (out, {state name: state}); values and gradients against those in `file`."""
    case = dict(np.load(file))
    inputs = {name: case["in_" + name] for name in names if "in_" + name in case}

    @jax.jit
    def everything(inputs):
        (out, states), pullback = jax.vjp(lambda inputs: run(**inputs), inputs)
        of_out = jnp.asarray(case.get("cot", np.zeros(out.shape)), out.dtype)
        gradients = {"grad_": pullback((of_out, jax.tree.map(jnp.zeros_like, states)))[0]}
        if any(key.startswith("gradfs_") for key in case):
            of_states = {name: jnp.asarray(case["cotstate_" + name], jnp.float32) for name in states}
            gradients["gradfs_"] = pullback((of_out, of_states))[0]
        return out, states, gradients

    out, states, gradients = everything(inputs)
    _close(out, case["out"], FORWARD, "out")
    for name, state in states.items():
        if "state_" + name in case:
            _close(state, case["state_" + name], FORWARD, name)
    checked = 0
    for prefix, group in gradients.items():
        for name, gradient in group.items():
            if prefix + name in case:
                _close(gradient, case[prefix + name], GRADIENT, prefix + name)
                checked += 1
    return checked


def vector_files(refs, op, hardest=True):
    """Every case, or the hardest: 37 tokens with an initial state, under strong decay, and normalised."""
    files = sorted(pathlib.Path(refs, "ops", op).glob("*.npz"))
    assert files, f"no reference vectors of {op} under {refs}"
    if not hardest:
        return files
    files = [file for file in files if "T37" in file.stem]
    return [file for file in files if "h0" in file.stem or "norm" in file.stem] or files


FORMS = [
    (op, method)
    for op in ("linear_attn", "simple_gla", "gla", "lightning_attn", "retention")
    for method in ("sequential", "associative", "chunked", "parallel")
    if (op, method) != ("gla", "parallel")  # a decay per key channel has no parallel form
]


@pytest.mark.parametrize(("op", "method"), FORMS)
def test_linear_attention(refs, op, method):
    """Wrong here: the order of decay and update, the scale, or the side on which the state is read."""
    checked = 0
    for file in vector_files(refs, op):
        meta = json.loads(str(np.load(file)["meta"]))
        normalize, heads_first = meta.get("normalize", False), op == "retention"
        decay = jnp.log1p(-(2.0 ** (-5 - jnp.arange(4.0)))) if heads_first else None

        def run(q, k, v, g=decay, h0=None, normalize=normalize, heads_first=heads_first):
            if heads_first:
                q, k, v = (jnp.moveaxis(array, 1, 2) for array in (q, k, v))
            state = None if h0 is None else LinearAttentionState(h0)
            o, final = linear_attention(
                q, k, v, log_decay=g, normalize=normalize, initial_state=state, method=method, chunk_size=16
            )
            states = {"S": final.kv} | ({"z": final.key_sum[:, None]} if normalize else {})
            return (jnp.moveaxis(o, 1, 2) if heads_first else o), states

        checked += check(file, run, ("q", "k", "v", "g", "h0"))
    assert checked


@pytest.mark.parametrize("method", ["sequential", "associative", "chunked", "parallel"])
def test_linear_attention_as_the_state_space_dual(refs, method):
    """Mamba-2's core, with q = C, k = B, v = x and no scale; its state is stored transposed."""

    def run(C, B, X, A, h0):
        state = LinearAttentionState(h0.swapaxes(2, 3))
        o, final = linear_attention(
            C, B, X, log_decay=A, scale=1.0, initial_state=state, method=method, chunk_size=16
        )
        return o, {"S": final.kv.swapaxes(2, 3)}

    (file,) = vector_files(refs, "ssd")
    assert check(file, run, ("C", "B", "X", "A", "h0")) == 10


@pytest.mark.parametrize("method", ["sequential", "associative"])
@pytest.mark.parametrize("op", ["hgrn", "rnn_scan"])
def test_linear_recurrence(refs, op, method):
    """Wrong here: the gate of the wrong step is applied, or a reset keeps what came before."""
    checked = 0
    for file in vector_files(refs, op):
        reset = np.load(file).get("in_reset")

        def run(x, g=None, a=None, h0=None, reset=reset):
            if g is not None:
                a = jnp.exp(g)
            ids = None
            if reset is not None:
                # A reset at the row's first token forgets the initial state; at a later one it
                # begins a document.
                ids = jnp.asarray(1 + np.cumsum(reset, axis=1), jnp.int32)
                h0 = None if h0 is None else jnp.where(reset[:, :1], 0, h0)
            h, final = linear_recurrence(a, x, initial_state=h0, segment_ids=ids, method=method)
            return h, {"h": final}

        checked += check(file, run, ("x", "g", "a", "h0"))
    assert checked


def test_causal_conv(refs):
    """Wrong here: taps in the reverse order, or a window that is stored newest first."""
    checked = 0
    for file in vector_files(refs, "causal_conv1d", hardest=False):
        activation = json.loads(str(np.load(file)["meta"]))["activation"]
        one_step = file.stem.startswith("update")

        def run(x, weight, bias=None, init=None, state=None, activation=activation, one_step=one_step):
            # The stored one-step states keep more inputs than the window needs.
            init = state[..., -(weight.shape[1] - 1) :] if one_step else init
            y, last = causal_conv(
                jnp.moveaxis(x, 1, 2), weight.T, bias,
                initial_state=None if init is None else jnp.moveaxis(init, 1, 2),
            )  # fmt: skip
            y = jax.nn.silu(y) if activation == "silu" else y
            return jnp.moveaxis(y, 1, 2), {} if one_step else {"last": jnp.moveaxis(last, 1, 2)}

        checked += check(file, run, ("x", "weight", "bias", "init", "state"))
    assert checked
