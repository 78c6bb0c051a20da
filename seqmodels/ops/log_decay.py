"""The logarithm of a decay in the three shapes that ops take it in."""

import jax
import jax.numpy as jnp

from seqmodels.ops.arguments import require_array


def require_log_decay(op_name: str, log_decay: jax.Array | None, shape: tuple[int, ...]) -> None:
    """Raise ValueError unless `log_decay` fits queries of `shape` [B, T, H, K]."""
    if log_decay is None:
        return
    require_array(op_name, "log_decay", log_decay, "[H], [B, T, H] or [B, T, H, K]")
    if log_decay.shape not in (shape[2:3], shape[:3], shape):
        raise ValueError(
            f"{op_name}: log_decay has shape {log_decay.shape}, expected [H] = {shape[2:3]}, "
            f"[B, T, H] = {shape[:3]} or [B, T, H, K] = {shape}."
        )


def per_token(log_decay, length, dtype):
    """log_decay as [1 or B, T, H, 1 or K], or None."""
    if log_decay is None:
        return None
    if log_decay.ndim == 1:
        log_decay = jnp.broadcast_to(log_decay[None, None, :], (1, length, log_decay.shape[0]))
    if log_decay.ndim == 3:
        log_decay = log_decay[..., None]
    # e^-1e30 is 0 as e^-inf is, and 0 * -inf in a sum of decays would be NaN.
    return jnp.maximum(log_decay.astype(dtype), -1e30)
