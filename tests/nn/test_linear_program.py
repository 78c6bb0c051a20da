"""What a linear map's gradient compiles to."""

import re

import jax
import jax.numpy as jnp
import numpy as np

from seqmodels.nn.linear import product


def test_the_kernels_gradient_needs_no_transposed_copy():
    """Wrong if a step spends its time turning wide activations over, as it does from [B, T, ...] on CPUs."""
    x, kernel = jax.ShapeDtypeStruct((4, 64, 128), jnp.float32), jax.ShapeDtypeStruct((128, 352), jnp.float32)

    def loss(x, kernel):
        return (product(x, kernel) ** 2).sum()

    program = jax.jit(jax.grad(loss, argnums=(0, 1))).lower(x, kernel).compile().as_text()
    turned = re.findall(r"= f32\[([\d,]+)\]\S* (?:transpose|copy)\(", program)
    sizes = {int(np.prod([int(n) for n in shape.split(",")])) for shape in turned}
    assert not sizes & {4 * 64 * 128, 4 * 64 * 352}
