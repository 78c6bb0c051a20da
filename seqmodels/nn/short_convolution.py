"""The short causal convolutions that many mixers put before their recurrence."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from flax import nnx

from seqmodels.ops import causal_conv


class ShortConvolution(nnx.Module):
    """SiLU of a causal depthwise convolution over the current token and the `width` − 1 before it.

    channels: D; width: W; bias: whether a bias [D] is added; activation: whether SiLU follows. Neither kernel
    nor bias takes weight decay.
    """

    def __init__(
        self, channels: int, width: int, *, bias: bool = False, activation: bool = True, rngs: nnx.Rngs
    ):
        self.activation = activation
        bound = width**-0.5
        kernel = jax.random.uniform(rngs.params(), (width, channels), jnp.float32, -bound, bound)
        self.kernel = nnx.Param(kernel, weight_decay=False)
        self.bias = nnx.Param(jnp.zeros(channels, jnp.float32), weight_decay=False) if bias else None

    def __call__(
        self, x: jax.Array, *, segment_ids: jax.Array | None, state: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """x [B, T, D] -> (y [B, T, D] in the dtype of x, the new window [B, W-1, D], oldest first)."""
        bias = None if self.bias is None else self.bias[...]
        y, window = causal_conv(x, self.kernel[...], bias, initial_state=state, segment_ids=segment_ids)
        return jax.nn.silu(y) if self.activation else y, window.astype(state.dtype)

    def init_state(self, batch_size: int, dtype=jnp.float32) -> jax.Array:
        """The empty window: the convolution reads zeros before a document."""
        width, channels = self.kernel.shape
        return jnp.zeros((batch_size, width - 1, channels), dtype)

    def flops_per_token(self) -> int:
        """2 a multiply-add."""
        return 2 * self.kernel.size


class ShortConvolutions(nnx.Module):
    """A short convolution for each of several streams, such as q, k and v; none where `width` is None.

    activation: whether SiLU follows them.
    """

    def __init__(
        self, channels: Sequence[int], width: int | None, *, activation: bool = True, rngs: nnx.Rngs
    ):
        sizes = () if width is None else channels
        self.streams = nnx.List(
            [ShortConvolution(size, width, activation=activation, rngs=rngs) for size in sizes]
        )

    def __call__(
        self, streams: tuple[jax.Array, ...], *, segment_ids: jax.Array | None, state: tuple[jax.Array, ...]
    ) -> tuple[tuple[jax.Array, ...], tuple[jax.Array, ...]]:
        """Streams [B, T, ·] and their windows -> the streams convolved, and the new windows."""
        if not self.streams:
            return streams, ()
        results = [
            convolution(x, segment_ids=segment_ids, state=window)
            for convolution, x, window in zip(self.streams, streams, state, strict=True)
        ]
        return tuple(y for y, _ in results), tuple(window for _, window in results)

    def init_state(self, batch_size: int, dtype=jnp.float32) -> tuple[jax.Array, ...]:
        """The empty windows, one a stream."""
        return tuple(convolution.init_state(batch_size, dtype) for convolution in self.streams)

    def flops_per_token(self) -> int:
        """2 a multiply-add."""
        return sum(convolution.flops_per_token() for convolution in self.streams)
