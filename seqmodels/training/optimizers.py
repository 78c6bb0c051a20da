"""The optimizers a config can name: AdamW and Muon.

Each clips the gradient, makes its step, and then adds the weight decay, which is therefore neither clipped
nor normalised (decoupled: Loshchilov and Hutter, 2019). What decays is said by the parameters themselves.
"""

import dataclasses
from typing import Any, Literal, NamedTuple

import gin
import jax
import optax
from optax import contrib

from seqmodels.errors import InputError
from seqmodels.training.schedules import Schedule, schedule

DECAYS_OF_MEANS = {"momentum", "beta1", "beta2"}
LARGEST_DECAY = 1 - 2**-24  # the next one is 1 in float32


class Update(NamedTuple):
    """The gradient transformation of an update, and its learning rate by the count of updates made."""

    transform: optax.GradientTransformation
    schedule: Schedule

    def init(self, params: Any) -> Any:
        """The optimizer's state before the first update."""
        return self.transform.init(params)

    def count(self, opt_state: Any) -> jax.Array:
        """int32, the updates made, by which the schedule goes."""
        return opt_state[-1].count

    def __call__(self, gradients: Any, opt_state: Any, params: Any) -> tuple[Any, Any]:
        """(what to add to the parameters, the optimizer's state after the update)."""
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):  # optax needs both
            return self.transform.update(gradients, opt_state, params)


@dataclasses.dataclass(frozen=True)
class Optimizer:
    """What every optimizer has: the learning rate and its schedule, decoupled decay, clipping.

    Attributes:
        learning_rate: the peak of the schedule.
        schedule: "cosine", "wsd" (warm-up, stable, decay) or "constant"; the formulas are in `schedules`.
        warmup_steps: updates over which the rate grows to its peak.
        final_fraction: the fraction of the peak at which cosine and wsd end.
        decay_fraction: the share of all steps over which wsd decays.
        weight_decay: what is taken off a decayed parameter each update, times the learning rate.
        clip_norm: the largest norm of the whole gradient; None does not clip.
    """

    learning_rate: float = 1e-3
    schedule: Literal["cosine", "wsd", "constant"] = "cosine"
    warmup_steps: int = 0
    final_fraction: float = 0.1
    decay_fraction: float = 0.2
    weight_decay: float = 0.1
    clip_norm: float | None = 1.0

    def __post_init__(self):
        name = type(self).__name__
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, (int, float)) and value < 0:
                raise InputError(f"{name}.{field.name} = {value} should not be negative.")
            if field.name in DECAYS_OF_MEANS and value >= LARGEST_DECAY:
                raise InputError(f"{name}.{field.name} = {value} should be below 1, where no mean moves.")
            if field.name == "epsilon" and value == 0:
                raise InputError(f"{name}.epsilon = 0 should be above 0: without gradients steps become NaN.")
        for fraction in ("final_fraction", "decay_fraction"):
            if getattr(self, fraction) > 1:
                raise InputError(f"{name}.{fraction} = {getattr(self, fraction)} should be at most 1.")
        if self.clip_norm == 0:
            raise InputError(f"{name}.clip_norm = 0 would stop all learning; None does not clip.")

    def build(self, decays: Any, steps: int, learning_rate: float | jax.Array | None = None) -> Update:
        """The update for a run of `steps`.

        Args:
            decays: True for each parameter that weight decay acts on.
            steps: updates in all.
            learning_rate: the peak, traced or not, in place of the optimizer's own.
        """
        rates = schedule(
            self.schedule,
            learning_rate=self.learning_rate if learning_rate is None else learning_rate,
            steps=steps,
            warmup_steps=self.warmup_steps,
            final_fraction=self.final_fraction,
            decay_fraction=self.decay_fraction,
        )
        transform = optax.chain(
            optax.identity() if self.clip_norm is None else optax.clip_by_global_norm(self.clip_norm),
            self.direction(decays),
            optax.add_decayed_weights(self.weight_decay, mask=decays),
            optax.scale_by_learning_rate(rates),
        )
        return Update(transform, rates)

    def direction(self, decays: Any) -> optax.GradientTransformation:
        """Turns the clipped gradient into the step that the learning rate scales."""
        raise NotImplementedError


@gin.register
@dataclasses.dataclass(frozen=True)
class AdamW(Optimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019, arXiv:1711.05101).

    Attributes:
        beta1: decay of the mean of the gradients.
        beta2: decay of the mean of their squares.
        epsilon: added to the root of the latter.
    """

    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8

    def direction(self, decays: Any) -> optax.GradientTransformation:
        return optax.scale_by_adam(self.beta1, self.beta2, self.epsilon)


@gin.register
@dataclasses.dataclass(frozen=True)
class Muon(Optimizer):
    """Muon (Jordan, 2024): orthogonalised momentum for the linear maps of the layers, Adam for the rest.

    Both have Nesterov's momentum. The steps of the kernels are scaled to the root mean square of Adam's (0.2;
    arXiv:2502.16982), so that one learning rate and one weight decay serve both.

    Attributes:
        momentum: decay of the mean of the gradients of kernels.
        beta1: Adam's decay of the mean of the gradients.
        beta2: Adam's decay of the mean of their squares.
    """

    momentum: float = 0.95
    beta1: float = 0.9
    beta2: float = 0.95

    def direction(self, decays: Any) -> optax.GradientTransformation:
        return contrib.muon(
            learning_rate=-1.0,  # only the direction: decay and learning rate follow for all parameters alike
            beta=self.momentum,
            adam_b1=self.beta1,
            adam_b2=self.beta2,
            consistent_rms=0.2,
            muon_weight_dimension_numbers=jax.tree.map_with_path(_kernel_axes, decays),
        )


def _kernel_axes(path: tuple, decayed: bool) -> contrib.MuonDimensionNumbers | None:
    """Muon's axes for a linear map in the layers (convolutions do not decay); others are stacked layers."""
    if path[0].key != "layers" or path[-1].key != "kernel" or not decayed:
        return None
    return contrib.MuonDimensionNumbers(reduction_axis=-2, output_axis=-1)
