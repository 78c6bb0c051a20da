"""What every mixer is: the contract, the registry, and the one rule for states at document borders.

A mixer's state is a NamedTuple whose field `last_id` [B] int32 names the document of each row's last real
token, 0 for the empty state. A row whose first real id is another one starts from the empty state.
"""

from typing import Any, ClassVar, NamedTuple, TypeVar, get_args

import gin
import jax
import jax.numpy as jnp
from flax import nnx

from seqmodels.errors import InputError
from seqmodels.ops import segments

DEFAULT_HEAD_DIM = 64
# Of any size: XLA ends the process where the product of two sizes has more than 63 bits.
LARGEST = 2**24
# Of what the program holds one after another: compiling more takes hours.
UNROLLED = {"conv_width": 256, "depth": 1024}

MIXERS: dict[str, type["Mixer"]] = {}


class Costs(NamedTuple):
    """What one layer, or a whole model, costs at a length.

    flops_per_token: of the forward pass, 2 a multiply-add: products, convolutions and the recurrence in its
      recurrent form; no norms, no elementwise functions.
    state_elements: floating-point numbers in the state of one row.
    """

    flops_per_token: float
    state_elements: int


class Mixer(nnx.Module):
    """Mixes tokens over time: x [B, T, D] -> y [B, T, D], with a state that carries a row on.

    Every argument after `width` has a default. `layer` of `layers` comes from the model, for mixers whose
    initialisation or decay depends on depth; in a scan over layers `self.layer` is a traced int32 when the
    mixer is called. A mixer holds Params only, initialises them, and marks with `weight_decay=False` those
    that take no weight decay.

    methods: the forms of computation that `method` chooses from beside "auto". feed_forward: False where the
    mixer is a whole block by itself.
    """

    methods: ClassVar[tuple[str, ...]] = ()
    feed_forward: ClassVar[bool] = True

    def __call__(
        self,
        x: jax.Array,
        *,
        segment_ids: jax.Array | None = None,
        state: Any = None,
        rngs: nnx.Rngs | None = None,
    ) -> tuple[jax.Array, Any]:
        """Training, prefill, appending to a state and one-token decode, in one.

        x: [B, T, D]; its dtype is the compute dtype. segment_ids: [B, T] int32, 0 for padding; None continues
          the document of the state. state: None is `init_state(B, T)`. rngs: for what is drawn at random.
        Returns y like x, and the state after the last real token.
        """
        raise NotImplementedError

    def _begin(
        self, x: jax.Array, segment_ids: jax.Array | None, state: Any, keep: tuple[str, ...] = ()
    ) -> Any:
        """The state that a call starts from: the empty one for None, else what `resume` makes of it.

        Raises InputError where x or segment_ids are no row of tokens.
        """
        name = type(self).__name__
        if x.ndim != 3 or x.shape[1] < 1:
            raise InputError(f"{name}: x has shape {x.shape}, expected [B, T, D] with T >= 1.")
        if segment_ids is not None and segment_ids.shape != x.shape[:2]:
            raise InputError(
                f"{name}: segment_ids has shape {segment_ids.shape}, expected [B, T] = {x.shape[:2]}."
            )
        if segment_ids is not None and not jnp.issubdtype(segment_ids.dtype, jnp.integer):
            raise InputError(f"{name}: segment_ids is {segment_ids.dtype}, expected integers.")
        if state is None:
            return self.init_state(x.shape[0], x.shape[1], x.dtype)
        return resume(state, segment_ids, keep=keep)

    def log_decays(self, x: jax.Array, *, segment_ids: jax.Array | None = None) -> dict[str, jax.Array]:
        """How fast the state fades: the log of the factor that each token multiplies it by, by name.

        x, segment_ids: as for a call that begins with the empty state. Each array is float32 [B, T, ...], at
        most 0, and -inf where nothing is left. At padding it says nothing; at a document's first token it
        is that of a token inside.
          "gate": of a diagonal transition, [B, T, H], or for each key channel [B, T, H, K], or for each
            number of another state [B, T, ...]; the modulus where the state is complex.
          "written", "random": of a transition with an outer product, [B, T, H]: what is left for a reader
            along the key that the token writes, and along a random direction, the gate included
            (`rank_one_decay.rank_one_log_decays`).
        Empty for a mixer whose state does not fade by a factor: a cache keeps its tokens as they are.
        """
        return {}

    def init_state(self, batch_size: int, max_length: int, dtype=jnp.float32) -> Any:
        """The empty state. Caches hold `max_length` tokens; they and convolution windows are in `dtype`."""
        raise NotImplementedError

    def costs(self, length: int) -> Costs:
        """What this layer costs a token in a sequence of `length` tokens."""
        raise NotImplementedError


AnyMixer = TypeVar("AnyMixer", bound=type[Mixer])


def register(mixer: AnyMixer) -> AnyMixer:
    """Class decorator: adds a mixer to MIXERS, where the tests find it, and to the names in config files."""
    MIXERS[mixer.__name__] = mixer
    return gin.register(denylist=["width", "layer", "layers", "rngs"])(mixer)


State = TypeVar("State", bound=tuple)


def resume(state: State, segment_ids: jax.Array | None, *, keep: tuple[str, ...] = ()) -> State:
    """The state with which each row goes on: its own, or the empty one where the row begins another document.

    state: a NamedTuple with `last_id`; empty, all is zero. segment_ids: [B, T]; None continues every row.
    keep: fields whose old content an empty state does not read, and which are too large to select over.
    """
    if segment_ids is None:
        return state
    other = segments.first_real_id(segment_ids, state.last_id) != state.last_id

    def emptied(leaf):
        return jnp.where(jnp.expand_dims(other, tuple(range(1, leaf.ndim))), jnp.zeros((), leaf.dtype), leaf)

    changed = {
        field: jax.tree.map(emptied, getattr(state, field)) for field in state._fields if field not in keep
    }
    return state._replace(**changed)


def current_id(segment_ids: jax.Array | None, last_id: jax.Array) -> jax.Array:
    """[B] int32: the `last_id` after a row that began at `last_id`."""
    if segment_ids is None:
        return jnp.where(last_id == 0, 1, last_id)
    return segments.last_real_id(segment_ids, last_id)


def positions(segment_ids: jax.Array | None, position: jax.Array, length: int) -> jax.Array:
    """[B, T] int32: the place in its document of each of `length` tokens; `position` [B] came before them."""
    if segment_ids is None:
        return position[:, None] + jnp.arange(length, dtype=jnp.int32)[None, :]
    return segments.positions(segment_ids, position)


def current_position(segment_ids: jax.Array | None, position: jax.Array, length: int) -> jax.Array:
    """[B] int32: the `position` after a row of `length` tokens that began at `position`."""
    return position + length if segment_ids is None else segments.last_count(segment_ids, position)


def at_every_token(log_decay: jax.Array, x: jax.Array) -> jax.Array:
    """[B, T, ...] float32: a log-decay [...] that no token of x [B, T, D] changes."""
    return jnp.broadcast_to(log_decay.astype(jnp.float32)[None, None], (*x.shape[:2], *log_decay.shape))


def state_elements(mixer: Mixer, length: int) -> int:
    """The floating-point numbers in the state of one row that holds `length` tokens."""
    leaves = jax.tree.leaves(jax.eval_shape(lambda: mixer.init_state(1, length)))
    return sum(leaf.size for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating))


def heads_and_head_dim(
    mixer: str, width: int, heads: int | None, head_dim: int | None, usual: int = DEFAULT_HEAD_DIM
) -> tuple[int, int]:
    """The numbers of a mixer of `width` where one or both are left open.

    head_dim: width / heads where heads are given, else `usual`, or the width where that is smaller.
    heads: as many of head_dim as fit in the width, at least 1.
    """
    check_positive(mixer, heads=heads, head_dim=head_dim)
    if head_dim is None and heads is not None:
        if width % heads:
            raise InputError(
                f"{mixer}.heads is {heads}, which does not divide the width, {width}; choose a divisor, or "
                f"set {mixer}.head_dim."
            )
        head_dim = width // heads
    if head_dim is None:
        head_dim = min(usual, width)
    return heads or max(1, width // head_dim), head_dim


def check_choice(binding: str, value: str, choices: Any) -> None:
    """Raises InputError where `value` is none of `choices`, a tuple or a Literal type."""
    choices = get_args(choices) or choices
    if value not in choices:
        raise InputError(f"{binding} is {value!r}; it must be one of {', '.join(choices)}.")


def check_positive(owner: str, **arguments: int | None) -> None:
    """Raises InputError for the first argument of `owner` that is given and is no size of an array."""
    for name, value in arguments.items():
        if value is not None and value < 1:
            raise InputError(f"{owner}.{name} is {value}; it must be at least 1.")
        largest = UNROLLED.get(name, LARGEST)
        if value is not None and value > largest:
            raise InputError(f"{owner}.{name} is {value}; it must be at most {largest:,}.")
