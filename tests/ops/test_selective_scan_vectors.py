"""Mamba's scan against outputs, states and gradients of its published code (mamba_ssm, e9594ce)."""

import json
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqmodels.ops.selective_scan import selective_scan


def layer(arrays, softplus, method):
    """What the published function computes: bias and softplus on the step, the scan by groups, the gate.

    Its time is the last axis. B and C are [E, N] constants, [batch, N, T], or [batch, groups, N, T]; the op
    knows one group, so it is called once a group.
    """
    x, dt, z = (
        arrays[name].swapaxes(1, 2) if name in arrays else None for name in ("in_u", "in_delta", "in_z")
    )
    batch, length, width = x.shape
    dt = dt + arrays["in_delta_bias"][None, None] if "in_delta_bias" in arrays else dt
    dt = jax.nn.softplus(dt) if softplus else dt
    D = arrays.get("in_D", jnp.zeros(width))

    def by_group(maps):
        """[groups, batch, T, N]"""
        if maps.ndim == 2:
            return jnp.broadcast_to(maps[:, None, None, :], (width, batch, length, maps.shape[1]))
        return maps.reshape(batch, -1, *maps.shape[-2:]).transpose(1, 0, 3, 2)

    B, C = by_group(arrays["in_B"]), by_group(arrays["in_C"])
    outputs, states = [], []
    for group in range(B.shape[0]):
        part = slice(group * width // B.shape[0], (group + 1) * width // B.shape[0])
        y, state = selective_scan(
            x[..., part],
            dt[..., part],
            arrays["in_A"][part],
            B[group],
            C[group],
            D[part],
            method=method,
            chunk_size=16,
        )
        outputs.append(y)
        states.append(state)
    y = jnp.concatenate(outputs, axis=2)
    y = y if z is None else y * jax.nn.silu(z)
    return y.swapaxes(1, 2), jnp.concatenate(states, axis=1)


CASES = ("T1", "T5", "T37", "T37_plain", "T37_groups2", "T37_constBC", "T64", "T130")


@pytest.mark.parametrize(
    ("case", "method"), [(case, "chunked") for case in CASES] + [("T5", "associative"), ("T37", "sequential")]
)
def test_vectors_of_the_published_code(refs, case, method):
    """Wrong if our recurrence, its state or a gradient is not that of Mamba's own code."""
    data = dict(np.load(os.path.join(refs, "ops", "selective_scan", f"{case}.npz")))
    softplus = json.loads(str(data["meta"]))["softplus"]
    inputs = {name: jnp.asarray(value) for name, value in data.items() if name.startswith("in_")}

    @jax.jit
    def pull(inputs, *cotangents):
        values, pullback = jax.vjp(lambda inputs: layer(inputs, softplus, method), inputs)
        return values, *(pullback(pair)[0] for pair in cotangents)

    nothing = np.zeros(data["state_x"].shape, np.float32)
    cotangents = {"grad_": (data["cot"], nothing)}
    if "cotstate_x" in data:
        cotangents["gradfs_"] = (data["cot"], data["cotstate_x"])
    (y, state), *gradients = pull(inputs, *cotangents.values())
    close(y, data["out"], 2e-5, "out")
    close(state, data["state_x"], 2e-5, "state")
    for prefix, by_name in zip(cotangents, gradients, strict=True):
        for name, gradient in by_name.items():
            name = prefix + name.removeprefix("in_")
            close(gradient, data[name], 1e-4, name)


def close(got, wanted, bound, name):
    """The largest difference is at most `bound` of the largest magnitude."""
    np.testing.assert_allclose(got, wanted, rtol=0, atol=bound * np.abs(wanted).max(), err_msg=name)
