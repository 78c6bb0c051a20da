"""The long convolution, over all pairs."""

import jax.numpy as jnp
import numpy as np

from tests.mixers.references.pieces import silu


def long_convolution(p, x):
    q, k, v = (x @ p[name]["kernel"] for name in ("query", "key", "value"))
    length = x.shape[1]
    distances = np.arange(length)
    features = []
    for i in range(p["filter_input"]["kernel"].shape[0] // 2):  # pairs of a sine and a cosine
        angle = distances * 10_000.0 ** (-2 * i / p["filter_input"]["kernel"].shape[0])
        features += [np.sin(angle), np.cos(angle)]
    inner = silu(jnp.stack(features, -1) @ p["filter_input"]["kernel"] + p["filter_input"]["bias"])
    window = jnp.exp(-jnp.exp(p["rate_log"]) * distances[:, None])
    f = window * (inner @ p["filter_output"]["kernel"])
    apart = distances[:, None] - distances[None, :]
    pairs = jnp.where((apart >= 0)[..., None], f[np.maximum(apart, 0)], 0)
    y = jnp.einsum("tsd,bsd->btd", pairs, k * v) + p["D"] * k * v
    return (q * y) @ p["output"]["kernel"]
