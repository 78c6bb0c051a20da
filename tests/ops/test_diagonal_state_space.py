"""The diagonal state space: published vectors, and that its convolution is its recurrence at every length."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqmodels.nn.zero_order_hold import zero_order_hold
from seqmodels.ops import diagonal_state_space
from tests.ops.reference_loops import random_segment_ids, relative_rms

METHODS = ("sequential", "associative", "convolution")


@pytest.mark.parametrize("case", ["T5", "T37", "T64"])
@pytest.mark.parametrize("method", METHODS)
def test_vectors_of_the_published_layer(refs, method, case):
    """Wrong if the hold, the factor 2 or the kernel is not that of the published S4D (s4, e757cef)."""
    data = dict(np.load(os.path.join(refs, "ops", "s4d", f"{case}.npz")))
    inputs = {name.removeprefix("in_"): value for name, value in data.items() if name.startswith("in_")}

    def layer(u, D, log_dt, C, log_A_real, A_imag, Wout, bout):
        rate = jax.lax.complex(-jnp.exp(log_A_real), A_imag)
        exponent, scale = zero_order_hold(rate, jnp.exp(log_dt)[:, None])
        u = u.swapaxes(1, 2)
        y, _ = diagonal_state_space(
            u,
            exponent,
            jax.lax.complex(C[..., 0], C[..., 1]) * scale,
            method=method,
        )
        y = jax.nn.gelu(y + D[None, None] * u, approximate=False)
        value, gate = jnp.split(y @ Wout[:, :, 0].T + bout[None, None], 2, axis=-1)
        return (value * jax.nn.sigmoid(gate)).swapaxes(1, 2)

    @jax.jit
    def pull(inputs, cotangent):
        y, pullback = jax.vjp(lambda inputs: layer(**inputs), inputs)
        return y, pullback(cotangent)[0]

    y, gradients = pull(inputs, data["cot"])
    np.testing.assert_allclose(y, data["out"], rtol=0, atol=2e-5 * np.abs(data["out"]).max())
    for name, gradient in gradients.items():
        wanted = data[f"grad_{name}"]
        np.testing.assert_allclose(gradient, wanted, rtol=0, atol=1e-4 * np.abs(wanted).max(), err_msg=name)


@pytest.mark.parametrize(
    "length", [1, 2, 9, 65, *(pytest.param(length, marks=pytest.mark.slow) for length in (64, 129, 300))]
)
def test_forms_agree(length):
    """With packed documents, padding and an initial state: y, the final state and every gradient."""
    rng = np.random.default_rng(length)
    x, dy = (rng.normal(size=(3, length, 2)).astype(np.float32) for _ in range(2))
    # The slowest channels keep for a thousand tokens, and turn through many circles meanwhile.
    rate = (-np.geomspace(1e-3, 1.0, 8) + 1j * rng.uniform(0, 3, 8)).reshape(2, 4).astype(np.complex64)
    C, state, dstate = (
        (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64)
        for shape in ((2, 4), (3, 2, 4), (3, 2, 4))
    )
    ids = random_segment_ids(rng, 3, length)
    dy = np.where((ids != 0)[..., None], dy, 0)

    def run(method, ids):
        def call(x, rate, C, state):
            return diagonal_state_space(x, rate, C, initial_state=state, segment_ids=ids, method=method)

        @jax.jit
        def both(*arrays):
            values, pull = jax.vjp(call, *arrays)
            return values, pull((dy, dstate))

        (y, final), gradients = both(x, rate, C, state)
        return np.where(dy != 0, y, 0), final, gradients

    for given in (None, ids):
        *wanted, gradients = run("sequential", given)
        for method in METHODS[1:]:
            *got, of_inputs = run(method, given)
            for one, other in zip((*got, *of_inputs), (*wanted, *gradients), strict=True):
                assert relative_rms(one, other) < 1e-5
    if (ids[2] == 0).all():
        np.testing.assert_array_equal(run("convolution", ids)[1][2], state[2])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rate": np.zeros((2, 4))}, r"rate has shape \(2, 4\), expected \[D, N\] with D = 3"),
        ({"C": np.zeros((3, 5))}, r"C has shape \(3, 5\), expected \[D, N\] = \(3, 4\)"),
        ({"initial_state": np.zeros((2, 3, 5))}, r"initial_state has shape \(2, 3, 5\)"),
        ({"method": "fft"}, "method is 'fft'; it offers auto, sequential, associative, convolution"),
    ],
)
def test_wrong_arguments_are_refused(changes, message):
    arguments = {
        "x": np.zeros((2, 5, 3), np.float32),
        "rate": np.zeros((3, 4)),
        "C": np.zeros((3, 4)),
        **changes,
    }
    with pytest.raises(ValueError, match=message):
        diagonal_state_space(
            **{
                n: v.astype(np.complex64) if n in ("rate", "C", "initial_state") else v
                for n, v in arguments.items()
            }
        )
