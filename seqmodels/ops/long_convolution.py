"""Causal depthwise convolution with a filter as long as the row: y_t = sum_{j<=t} kernel_{t-j} x_j.

The nearest lags are a short convolution. For the others a row is halved again and again: each left half is
convolved into the right half beside it, which reads nothing but what came before it. So no later token moves
a bit of an earlier output, even through an FFT, which mixes all that it is given; and since documents are
contiguous in a packed row, the one that a border lies in is all that may pass it: the rest is selected away.
(The halving is that of online multiplication: Fischer and Stockmeyer 1974.)
"""

import jax
import jax.numpy as jnp

from seqmodels.ops import segments
from seqmodels.ops.arguments import as_arrays, require_array, require_rank, require_segment_ids
from seqmodels.ops.conv import causal_conv
from seqmodels.ops.methods import resolve
from seqmodels.ops.packing import packing, permuted
from seqmodels.ops.precision import sum_dtype

METHODS = ("blockwise", "fft")
NEAR = 8  # lags of the short convolution; a power of 2
BLOCK = 64  # tokens a Toeplitz matrix meets at once; a power of 2


def long_convolution(
    x: jax.Array, kernel: jax.Array, *, segment_ids: jax.Array | None = None, method: str = "auto"
) -> jax.Array:
    """Each token's sum over itself and all earlier tokens of its document, weighted by their distance.

    Args:
      x: [B, T, D] inputs.
      kernel: [S, D]; kernel[j] weighs the token j real tokens back. Beyond S the weight is 0.
      segment_ids: [B, T] int32, 0 for padding, over which no distance is counted; None: one document.
      method: "blockwise" multiplies by Toeplitz matrices, T/2 multiply-adds a token and channel; "fft"
        convolves halves of 64 tokens and more by FFT; "auto" takes the faster one.

    Returns:
      y [B, T, D] in the dtype of x. Products and sums are float32.

    Raises:
      ValueError: for an unknown method and for shapes that do not fit.
    """
    x, kernel, segment_ids = as_arrays(x, kernel, segment_ids)
    require_rank("long_convolution", "x", x, "[B, T, D]")
    batch, length, width = x.shape
    require_array("long_convolution", "kernel", kernel, "[S, D]")
    if kernel.ndim != 2 or kernel.shape[0] < 1 or kernel.shape[1] != width:
        raise ValueError(
            f"long_convolution: kernel has shape {kernel.shape}, expected [S, D], S >= 1 and D = {width}."
        )
    require_segment_ids("long_convolution", segment_ids, batch, length)
    method = resolve("long_convolution", method, METHODS, length)
    dtype = sum_dtype(x.dtype, kernel.dtype)
    wide, kernel = x.astype(dtype), kernel.astype(dtype)
    y, _ = causal_conv(wide, kernel[:NEAR][::-1], segment_ids=segment_ids)
    if min(length, kernel.shape[0]) > NEAR:
        y = y + _far(wide, kernel, segment_ids, method)
    return y.astype(x.dtype)


def _far(x, kernel, segment_ids, method):
    """What lags from NEAR on contribute, [B, T, D]. Inside, time is last: [D, B, T]."""
    length = x.shape[1]
    documents = None
    if segment_ids is not None:
        real = segment_ids != 0
        front, back = packing(real)
        x = permuted(jnp.where(real[..., None], x, 0), front, back)
        documents = jnp.take_along_axis(segments.ordinals(segment_ids), front, axis=1)
    x = x.transpose(2, 0, 1)
    kernel = jnp.pad(kernel[NEAR:length], ((NEAR, max(0, length - kernel.shape[0])), (0, 0))).T
    y = jnp.zeros_like(x)
    size = NEAR
    while size < length:
        if method == "blockwise" and size == BLOCK:
            y = y + _between_blocks(x, kernel, documents)
            break
        y = y + _between_halves(x, kernel, documents, size, fft=size >= BLOCK)
        size *= 2
    y = y.transpose(1, 2, 0)
    return y if segment_ids is None else permuted(y, back, front)


def _between_halves(x, kernel, documents, size, *, fft):
    """From the first to the second half of every 2·size tokens: lags of 1 to 2·size - 1."""
    width, batch, length = x.shape
    pairs = -(-length // (2 * size))
    left = _blocks(x, 2 * size)[..., :size]
    lags = _lags(kernel, 0, 2 * size)
    if documents is not None:
        whose = _blocks(documents, 2 * size, "edge")
        begins = whose[..., size : size + 1]
        left = jnp.where((whose[..., :size] == begins)[None], left, 0)
    if fft:
        spectrum = jnp.fft.rfft(left, 2 * size) * jnp.fft.rfft(lags)[:, None, None, :]
        right = jnp.fft.irfft(spectrum, 2 * size)[..., size:]
    else:
        right = jnp.einsum("dbnj,dji->dbni", left, _toeplitz(lags))
    if documents is not None:
        right = jnp.where((whose[..., size:] == begins)[None], right, 0)
    whole = jnp.concatenate([jnp.zeros_like(left), right], axis=-1)
    return whole.reshape(width, batch, 2 * size * pairs)[..., :length]


def _between_blocks(x, kernel, documents):
    """From every block of BLOCK tokens to every later one, by the number of blocks between them."""
    length = x.shape[2]
    blocks = _blocks(x, BLOCK)
    count = blocks.shape[2]
    before = jnp.pad(blocks, ((0, 0), (0, 0), (count, 0), (0, 0)))
    if documents is not None:
        whose = _blocks(documents, BLOCK, "edge")
        begins = whose[..., :1]
        whose_before = jnp.pad(whose, ((0, 0), (count, 0), (0, 0)), constant_values=-1)

    # Recomputed in the backward pass: each distance would keep its own copy of x.
    @jax.checkpoint
    def from_distance(distance):
        moved = jax.lax.dynamic_slice_in_dim(before, count - distance, count, axis=2)
        if documents is not None:
            sources = jax.lax.dynamic_slice_in_dim(whose_before, count - distance, count, axis=1)
            moved = jnp.where((sources == begins)[None], moved, 0)
        lags = _lags(kernel, (distance - 1) * BLOCK, 2 * BLOCK)
        return jnp.einsum("dbnj,dji->dbni", moved, _toeplitz(lags))

    def add(y, distance):
        return y + from_distance(distance), None

    y, _ = jax.lax.scan(add, jnp.zeros_like(blocks), jnp.arange(1, count))
    if documents is not None:
        y = jnp.where((whose == begins)[None], y, 0)
    return y.reshape(*y.shape[:2], -1)[..., :length]


def _blocks(array, size, mode="constant"):
    """[..., T] to [..., n, size], the tail filled with 0 ("constant") or the last entry ("edge")."""
    tail = -array.shape[-1] % size
    array = jnp.pad(array, ((0, 0),) * (array.ndim - 1) + ((0, tail),), mode=mode)
    return array.reshape(*array.shape[:-1], -1, size)


def _lags(kernel, first, count):
    """kernel [D, S] at lags first .. first + count - 1, 0 beyond S."""
    kernel = jnp.pad(kernel, ((0, 0), (0, -kernel.shape[1] % count + count)))
    return jax.lax.dynamic_slice_in_dim(kernel, first, count, axis=1)


def _toeplitz(lags):
    """lags [D, 2C] -> [D, C, C], whose [j, i] is lag C + i - j: from j in one block to i in the next.

    Rows of 2C numbers, repeated and read in rows that are one shorter, stand one further to the right each
    time. A gather would have a scatter as its gradient.
    """
    width, twice = lags.shape
    size = twice // 2
    row = jnp.concatenate([lags[:, 1:], lags[:, :1]], axis=1)
    repeated = jnp.broadcast_to(row[:, None, :], (width, size, twice)).reshape(width, size * twice)
    shifted = repeated[:, : size * (twice - 1)].reshape(width, size, twice - 1)
    return shifted[:, :, size - 1 :]
