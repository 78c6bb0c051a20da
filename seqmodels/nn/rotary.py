"""Rotary positions (Su et al. 2021) and the three usual ways to stretch them past their training length."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from seqmodels.errors import InputError

RotaryScaling = Literal["none", "linear", "llama3", "yarn"]

# Llama 3.1: full frequency above 4 turns within the original length, divided by the factor below 1 turn.
LLAMA3_LOW_TURNS, LLAMA3_HIGH_TURNS = 1.0, 4.0
# YaRN (Peng et al. 2023, section 3.2): the same idea, for a Llama-like model, between 1 and 32 turns.
YARN_LOW_TURNS, YARN_HIGH_TURNS = 1.0, 32.0


@dataclass(frozen=True)
class Rotary:
    """Turns channel pairs (i, i + K/2) by position · frequency_i.

    theta: frequency_i = theta^(−2i/K) before scaling.
    scaling: "none"; "linear" divides positions by `factor` (Chen et al. 2023); "llama3" and "yarn" divide
      only the frequencies that turn seldom within `original_length` tokens; "yarn" also sharpens the logits.
    factor: new length over original length. original_length: tokens, needed by "llama3" and "yarn".
    """

    theta: float = 10_000.0
    scaling: RotaryScaling = "none"
    factor: float = 1.0
    original_length: int | None = None

    def check(self, binding: str, head_dim: int) -> None:
        """Raises InputError for settings that do not fit; `binding` names the module they were given to."""
        if head_dim % 2:
            raise InputError(
                f"{binding}.head_dim is {head_dim}; rotary positions turn pairs, so it must be even."
            )
        if self.scaling not in get_args(RotaryScaling):
            raise InputError(
                f"{binding}.rope_scaling is {self.scaling!r}; it must be one of "
                f"{', '.join(get_args(RotaryScaling))}."
            )
        if self.factor <= 0 or self.theta <= 1:
            raise InputError(
                f"{binding}.rope_factor is {self.factor} and rope_theta {self.theta}; the first must be "
                "above 0, the second above 1."
            )
        if self.scaling in ("llama3", "yarn") and not self.original_length:
            raise InputError(
                f"{binding}.rope_scaling {self.scaling!r} needs rope_original_length, the length trained on."
            )

    def frequencies(self, head_dim: int) -> np.ndarray:
        """[K/2] float64 radians a token."""
        plain = self.theta ** (-np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
        if self.scaling == "none":
            return plain
        if self.scaling == "linear":
            return plain / self.factor
        if self.scaling == "llama3":
            turns = self.original_length * plain / (2 * math.pi)
            kept = (turns - LLAMA3_LOW_TURNS) / (LLAMA3_HIGH_TURNS - LLAMA3_LOW_TURNS)
        else:
            kept = 1.0 - self._yarn_ramp(head_dim)
        kept = np.clip(kept, 0.0, 1.0)
        return plain * kept + plain / self.factor * (1.0 - kept)

    def _yarn_ramp(self, head_dim: int) -> np.ndarray:
        """[K/2]: up to 0 where a frequency stays, from 1 where it is divided by factor; linear between."""

        def channel(turns):
            return (
                head_dim * math.log(self.original_length / (turns * 2 * math.pi)) / (2 * math.log(self.theta))
            )

        low = max(math.floor(channel(YARN_HIGH_TURNS)), 0)
        high = min(math.ceil(channel(YARN_LOW_TURNS)), head_dim - 1)
        return (np.arange(head_dim // 2) - low) / max(high - low, 1e-3)

    @property
    def magnitude(self) -> float:
        """The factor on rotated vectors; squared, YaRN's on the logits (Peng et al. 2023, equation 22)."""
        return 0.1 * math.log(self.factor) + 1.0 if self.scaling == "yarn" and self.factor > 1 else 1.0

    def __call__(self, x: jax.Array, positions: jax.Array) -> jax.Array:
        """x [B, T, H, K] at positions [B or 1, T] -> the same, turned, in the dtype of x.

        Angles are counted in 2^-32 of a turn, so that whole turns drop out exactly: as float32 radians the
        angle at position 65,536 would be off by up to 4e-3, here it is by 5e-5.
        """
        whole = 2.0**32
        steps = np.round(self.frequencies(x.shape[-1]) / (2 * np.pi) * whole) % whole
        angles = positions[..., None, None].astype(jnp.uint32) * steps.astype(np.uint32)[None, None, None, :]
        angles = angles.astype(jnp.int32).astype(jnp.float32) * (2 * np.pi / whole)
        cos, sin = self.magnitude * jnp.cos(angles), self.magnitude * jnp.sin(angles)
        first, second = jnp.split(x.astype(jnp.float32), 2, axis=-1)
        turned = jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
        return turned.astype(x.dtype)
