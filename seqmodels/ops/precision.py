"""The dtype that sums, decays and states are kept in."""

import jax.numpy as jnp
import numpy as np


def sum_dtype(*dtypes) -> np.dtype:
    """float32, or wider or complex where an input is (whatever the promotion mode of the program)."""
    widest = np.dtype(jnp.float32)
    for dtype in dtypes:
        widest = np.promote_types(widest, dtype)
    return widest
