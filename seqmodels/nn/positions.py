"""Absolute positions, added once at the input of the model."""

import jax
import jax.numpy as jnp
import numpy as np

WAVELENGTH = 10_000.0


def sinusoidal(positions: jax.Array, width: int) -> jax.Array:
    """The original Transformer's table (Vaswani et al. 2017, section 3.5), computed for any position.

    positions: [B, T] int32. Returns [B, T, width] float32: sines at even channels, cosines at odd ones,
    channels 2i and 2i+1 with wavelength 2π · 10000^(2i/width).
    """
    frequencies = WAVELENGTH ** (-np.arange(0, width, 2, dtype=np.float64) / width)
    angles = positions[..., None].astype(jnp.float32) * jnp.asarray(frequencies, jnp.float32)[None, None, :]
    waves = jnp.stack([jnp.sin(angles), jnp.cos(angles)], axis=-1)
    return waves.reshape(*positions.shape, -1)[..., :width]
