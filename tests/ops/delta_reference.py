"""Float64 loops of the delta rule and of diagonal plus low-rank transitions, with gradients by hand.

Written from the equations; they share no code with the package nor with each other.
"""

import numpy as np

from tests.ops.reference_loops import segment_marks


def delta_rule(q, k, v, beta, log_decay, scale, state, segment_ids, cotangents):
    """S' = diag(e^g) S, S = S' + beta k (v - k^T S')^T, o = scale q^T S.

    cotangents: of (o, final state). Returns (o, final state) and the gradients by argument name. Outputs and
    gradients at padding are 0.
    """
    batch, length = q.shape[:2]
    q, k, v, beta, S = (array.astype(np.float64) for array in (q, k, v, beta, state))
    g = np.zeros(1) if log_decay is None else log_decay.astype(np.float64)
    g = g[..., None] if g.ndim == 3 else g[None, None, :, None] if g.ndim == 1 else g
    decay = np.exp(np.broadcast_to(g, q.shape))
    real, border = segment_marks(segment_ids, batch, length)
    o, kept = np.zeros_like(v), []
    for t in range(length):
        S = np.where(border[:, t, None, None, None], 0, S)
        faded = decay[:, t, :, :, None] * S
        error = v[:, t] - np.einsum("bhk,bhkv->bhv", k[:, t], faded)
        kept.append((S, faded, error))
        after = faded + (beta[:, t, :, None] * k[:, t])[..., None] * error[:, :, None, :]
        S = np.where(real[:, t, None, None, None], after, S)
        o[:, t] = scale * np.einsum("bhk,bhkv->bhv", q[:, t], S) * real[:, t, None, None]
        kept[-1] += (S,)
    do, dS = (array.astype(np.float64) for array in cotangents)
    dq, dk, dv, dbeta, dg = np.zeros(q.shape), np.zeros(q.shape), np.zeros(v.shape), np.zeros(beta.shape), []
    for t in reversed(range(length)):
        live = real[:, t, None, None]
        before, faded, error, after = kept[t]
        dread = scale * do[:, t] * live
        dq[:, t] = np.einsum("bhkv,bhv->bhk", after, dread)
        dS = dS + q[:, t, :, :, None] * dread[:, :, None, :]
        written = np.einsum("bhk,bhkv->bhv", k[:, t], dS) * live
        derror = beta[:, t, :, None] * written
        dbeta[:, t] = (written * error).sum(-1)
        dv[:, t] = derror
        dk[:, t] = beta[:, t, :, None] * np.einsum("bhkv,bhv->bhk", dS, error) * live
        dk[:, t] -= np.einsum("bhkv,bhv->bhk", faded, derror)
        dfaded = dS - k[:, t, :, :, None] * derror[:, :, None, :]
        dg.append(live * decay[:, t] * (dfaded * before).sum(-1))
        dS = np.where(live[..., None], decay[:, t, :, :, None] * dfaded, dS)
        dS = np.where(border[:, t, None, None, None], 0, dS)
    gradients = {"q": dq, "k": dk, "v": dv, "beta": dbeta, "initial_state": dS}
    if log_decay is not None:
        axes = {1: (0, 1, 3), 3: (3,), 4: ()}[log_decay.ndim]
        gradients["log_decay"] = np.stack(dg[::-1], axis=1).sum(axis=axes)
    return (o, S), gradients


def dplr(q, k, v, a, b, log_decay, scale, state, segment_ids, cotangents):
    """S = diag(e^g) S + b (a^T S) + k v^T, o = scale q^T S; arguments and results as of `delta_rule`."""
    batch, length = q.shape[:2]
    q, k, v, a, b, g, S = (array.astype(np.float64) for array in (q, k, v, a, b, log_decay, state))
    decay = np.exp(g)
    real, border = segment_marks(segment_ids, batch, length)

    def transition(t):
        """M [B, H, K, K] with S_t = M S + k v^T; the identity at padding."""
        matrix = np.eye(q.shape[-1]) * decay[:, t, :, :, None] + b[:, t, :, :, None] * a[:, t, :, None, :]
        return np.where(real[:, t, None, None, None], matrix, np.eye(q.shape[-1]))

    o, kept = np.zeros_like(v), []
    for t in range(length):
        before = np.where(border[:, t, None, None, None], 0, S)
        S = transition(t) @ before
        S = S + real[:, t, None, None, None] * k[:, t, :, :, None] * v[:, t, :, None, :]
        kept.append((before, S))
        o[:, t] = scale * np.einsum("bhk,bhkv->bhv", q[:, t], S) * real[:, t, None, None]
    do, dS = (array.astype(np.float64) for array in cotangents)
    gradients = {name: np.zeros(q.shape) for name in ("q", "k", "a", "b", "log_decay")}
    gradients["v"] = np.zeros(v.shape)
    for t in reversed(range(length)):
        live = real[:, t, None, None]
        before, after = kept[t]
        dread = scale * do[:, t] * live
        gradients["q"][:, t] = np.einsum("bhkv,bhv->bhk", after, dread)
        dS = dS + q[:, t, :, :, None] * dread[:, :, None, :]
        gradients["k"][:, t] = live * np.einsum("bhkv,bhv->bhk", dS, v[:, t])
        gradients["v"][:, t] = live * np.einsum("bhkv,bhk->bhv", dS, k[:, t])
        dmatrix = live[..., None] * np.einsum("bhiv,bhjv->bhij", dS, before)
        gradients["b"][:, t] = np.einsum("bhij,bhj->bhi", dmatrix, a[:, t])
        gradients["a"][:, t] = np.einsum("bhij,bhi->bhj", dmatrix, b[:, t])
        gradients["log_decay"][:, t] = decay[:, t] * np.einsum("bhii->bhi", dmatrix)
        dS = np.swapaxes(transition(t), -1, -2) @ dS
        dS = np.where(border[:, t, None, None, None], 0, dS)
    return (o, S), gradients | {"initial_state": dS}
