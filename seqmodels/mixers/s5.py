"""S5: one linear state space for all channels, made diagonal, with a scan over time (Smith et al. 2023)."""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from seqmodels.errors import InputError
from seqmodels.mixers.base import (
    Costs,
    Mixer,
    at_every_token,
    check_choice,
    check_positive,
    current_id,
    register,
    state_elements,
)
from seqmodels.nn.diagonal_system import DiagonalSystem
from seqmodels.nn.gated_output import GatedOutput
from seqmodels.nn.time_steps import log_uniform_steps
from seqmodels.nn.zero_order_hold import zero_order_hold

LARGEST = 4096


class State(NamedTuple):
    """hidden [B, N/2, 2] float32, real and imaginary parts; last_id [B] int32."""

    hidden: jax.Array
    last_id: jax.Array


@register
class S5(Mixer):
    """h_t = e^{ΔA} h_{t−1} + A⁻¹(e^{ΔA} − 1) B x_t,  y_t = 2 Re(C h_t) + D x_t, then GELU and a gated
    projection (Smith et al. 2023, sections 3 and 4).

    A is diagonal with negative real parts and starts with the eigenvalues of the normal part of HiPPO-LegS,
    which come in pairs of conjugates: one of each pair is kept. B and C start as real matrices in its
    eigenvectors. Each eigenvalue has its own step Δ, log-uniform in [1e-3, 1e-1].

    Args:
      width: D. state_size: N, even; None: D.
    """

    methods = ("sequential", "associative")

    def __init__(
        self,
        width: int,
        *,
        state_size: int | None = None,
        layer: int = 0,
        layers: int = 1,
        method: Literal["auto", "sequential", "associative"] = "auto",
        rngs: nnx.Rngs,
    ):
        check_choice("S5.method", method, ("auto", *self.methods))
        check_positive("S5", state_size=state_size)
        size = width if state_size is None else state_size
        if size > LARGEST:
            raise InputError(
                f"S5.state_size is {size}; it must be at most {LARGEST:,}, its eigenvectors are computed."
            )
        if size % 2:
            raise InputError(f"S5.state_size is {size}; its eigenvalues come in pairs, so it must be even.")
        self.method, self.layer = method, layer
        eigenvalues, vectors = hippo_normal(size)
        self.A_log = nnx.Param(jnp.log(jnp.asarray(-eigenvalues.real, jnp.float32)), weight_decay=False)
        self.A_imag = nnx.Param(jnp.asarray(eigenvalues.imag, jnp.float32), weight_decay=False)
        self.dt_log = nnx.Param(jnp.log(log_uniform_steps(size // 2, rngs)), weight_decay=False)
        B = width**-0.5 * jax.random.normal(rngs.params(), (size, width), jnp.float32)
        C = size**-0.5 * jax.random.normal(rngs.params(), (width, size), jnp.float32)
        vectors = jnp.asarray(vectors, jnp.complex64)
        self.system = DiagonalSystem(
            vectors.conj().T @ B.astype(jnp.complex64),
            C.astype(jnp.complex64) @ vectors,
            conjugates=True,
            rngs=rngs,
        )
        self.output = GatedOutput(width, width, layers=layers, rngs=rngs)

    def __call__(self, x, *, segment_ids=None, state=None, rngs=None):
        state = self._begin(x, segment_ids, state)
        exponent, scale = self._held()
        y, hidden = self.system(
            x, jnp.exp(exponent), scale, state.hidden, segment_ids=segment_ids, method=self.method
        )
        return self.output(y), State(hidden, current_id(segment_ids, state.last_id))

    def _held(self):
        """(ΔA, what multiplies B), [N/2] complex."""
        rate = jax.lax.complex(-jnp.exp(self.A_log[...]), self.A_imag[...])
        return zero_order_hold(rate, jnp.exp(self.dt_log[...]))

    def log_decays(self, x, *, segment_ids=None):
        self._begin(x, segment_ids, None)
        return {"gate": at_every_token(self._held()[0].real, x)}

    def init_state(self, batch_size, max_length, dtype=jnp.float32):
        return State(self.system.init_state(batch_size), jnp.zeros(batch_size, jnp.int32))

    def costs(self, length):
        flops = self.system.flops_per_token() + self.output.flops_per_token()
        return Costs(flops, state_elements(self, length))


def hippo_normal(size: int) -> tuple[np.ndarray, np.ndarray]:
    """(eigenvalues [N/2], eigenvectors [N, N/2]) complex128, of those whose imaginary part is positive.

    The matrix is HiPPO-LegS, −√(2i+1)√(2j+1) below and −(i+1) on the diagonal, plus half of the rank-one term
    that makes it normal (Gu et al. 2022, "On the Parameterization and Initialization of Diagonal State Space
    Models"): −½ on the diagonal and skew-symmetric beside it.
    """
    root = np.sqrt(2.0 * np.arange(size) + 1)
    lower = np.tril(np.outer(root, root), -1)
    imaginary, vectors = np.linalg.eigh(-0.5j * (lower.T - lower))
    return -0.5 + 1j * imaginary[size // 2 :], vectors[:, size // 2 :]
