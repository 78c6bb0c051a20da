"""The loss of each token, without ever holding the logits of a whole batch where they are large."""

import jax
import jax.numpy as jnp

# Logits held at once: 64 MiB of float32.
LOGITS_AT_ONCE = 2**24


def token_nll(model, features: jax.Array, targets: jax.Array, *, chunk: int | None = None) -> jax.Array:
    """[B, T] float32 negative log-likelihoods, in nats, of `targets` [B, T] given `features` [B, T, D].

    model: has `head`, [B, T, D] -> [B, T, vocab] float32. chunk: tokens of each row whose logits are held at
    once, recomputed in the backward pass; None: as many as fit `LOGITS_AT_ONCE`. A target that is no token id
    gives NaN.
    """
    batch, length = targets.shape
    if chunk is None:
        vocabulary = jax.eval_shape(model.head, features[:, :1]).shape[-1]
        chunk = max(1, LOGITS_AT_ONCE // (batch * vocabulary))

    def nll(features, targets):
        logits = model.head(features)
        # Compared, not gathered: it fuses, shards over the vocabulary, and has no scatter as its gradient.
        ids = jnp.arange(logits.shape[-1], dtype=targets.dtype)
        hit = targets[..., None] == ids[None, None, :]
        picked = jnp.where(hit, logits, 0.0).sum(axis=-1)
        known = (targets >= 0) & (targets < logits.shape[-1])
        return jnp.where(known, jax.nn.logsumexp(logits, axis=-1) - picked, jnp.nan)

    if chunk >= length:
        return nll(features, targets)
    chunks = -(-length // chunk)
    missing = chunks * chunk - length
    features = jnp.pad(features, ((0, 0), (0, missing), (0, 0)))
    targets = jnp.pad(targets, ((0, 0), (0, missing)))
    features = features.reshape(batch, chunks, chunk, -1).swapaxes(0, 1)
    targets = targets.reshape(batch, chunks, chunk).swapaxes(0, 1)
    losses = jax.lax.map(lambda part: jax.checkpoint(nll)(*part), (features, targets))
    return losses.swapaxes(0, 1).reshape(batch, chunks * chunk)[:, :length]
