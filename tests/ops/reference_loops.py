"""Float64 loops over tokens, written from the equations, with their gradients worked out by hand.

They share no code with the package: documents and padding are read off `segment_ids` by plain loops here.
"""

import numpy as np


def relative_rms(got, want) -> float:
    """Root mean square of the difference over that of `want`; infinity where anything is not finite."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, (got.shape, want.shape)
    got = got.astype(np.complex128 if np.iscomplexobj(got) else np.float64)
    if not np.isfinite(got).all():
        return float("inf")
    error, size = (np.sqrt(np.mean(np.abs(array) ** 2)) for array in (got - want, want))
    return 0.0 if error == 0 else float(error / size) if size else float("inf")


def segment_marks(segment_ids, batch, length):
    """Two bool [B, T] arrays: the token is real; the token begins a document other than its row's first."""
    real = np.ones((batch, length), bool)
    border = np.zeros((batch, length), bool)
    if segment_ids is None:
        return real, border
    for row in range(batch):
        current = None
        for t in range(length):
            name = segment_ids[row, t]
            real[row, t] = name != 0
            if name != 0:
                border[row, t] = current is not None and name != current
                current = name
    return real, border


def random_segment_ids(rng, batch, length):
    """[B, T] int32: documents of any length, padding anywhere; the last row (of several) is padding alone."""
    ids = np.zeros((batch, length), np.int32)
    for row in range(batch - 1 if batch > 1 else batch):
        name = int(rng.integers(1, 100))
        for t in range(length):
            if t and rng.random() < 0.15:
                name += int(rng.integers(1, 5))
            ids[row, t] = 0 if rng.random() < 0.2 else name
    return ids


def linear_recurrence(a, x, initial_state, segment_ids, cotangent, final_cotangent, reverse=False):
    """h_t = a_t h_{t-1} + x_t: (h, final), and the cotangents pulled back to (a, x, initial_state)."""
    kind = np.complex128 if np.iscomplexobj(a) or np.iscomplexobj(x) else np.float64
    if reverse:
        flipped = (array[:, ::-1] if array is not None else None for array in (a, x, segment_ids, cotangent))
        a, x, segment_ids, cotangent = flipped
        values, gradients = linear_recurrence(a, x, initial_state, segment_ids, cotangent, final_cotangent)
        return (values[0][:, ::-1], values[1]), (gradients[0][:, ::-1], gradients[1][:, ::-1], gradients[2])
    shape = np.broadcast_shapes(a.shape, x.shape)
    a_full, x_full = (np.broadcast_to(array, shape).astype(kind) for array in (a, x))
    batch, length = shape[:2]
    real, border = segment_marks(segment_ids, batch, length)
    state = initial_state.astype(kind)
    h, before = np.zeros(shape, kind), np.zeros(shape, kind)
    for t in range(length):
        for row in range(batch):
            if border[row, t]:
                state[row] = 0
            before[row, t] = state[row]
            if real[row, t]:
                state[row] = a_full[row, t] * state[row] + x_full[row, t]
        h[:, t] = state
    da, dx = np.zeros(shape, kind), np.zeros(shape, kind)
    dstate = final_cotangent.astype(kind)
    for t in reversed(range(length)):
        dstate = dstate + cotangent[:, t]
        for row in range(batch):
            if real[row, t]:
                dx[row, t], da[row, t] = dstate[row], dstate[row] * before[row, t]
                dstate[row] = dstate[row] * a_full[row, t]
            if border[row, t]:
                da[row, t], dstate[row] = 0, 0
    return (h, state), (_sum_to(da, a.shape), _sum_to(dx, x.shape), dstate)


def _sum_to(array, shape):
    axes = tuple(axis for axis, (of, to) in enumerate(zip(array.shape, shape, strict=True)) if of != to)
    return array.sum(axis=axes, keepdims=True) if axes else array


def linear_attention(q, k, v, log_decay, scale, kv, key_sum, segment_ids, cotangents=None):
    """S_t = diag(e^g) S_{t-1} + k_t v_t^T, o_t = scale q_t^T S_t; over q_t^T z_t where key_sum is given.

    cotangents: of (o, final kv, final key_sum). Returns (o, kv, key_sum) and, with cotangents, the gradients
    of q, k, v, log_decay, kv and key_sum as a dict. Outputs at padding are 0.
    """
    batch, length, heads, width = q.shape
    q, k, v, S = (array.astype(np.float64) for array in (q, k, v, kv))
    g = np.zeros(1) if log_decay is None else log_decay.astype(np.float64)
    g = g[..., None] if g.ndim == 3 else g[None, None, :, None] if g.ndim == 1 else g
    g = np.broadcast_to(g, q.shape)
    normalize = key_sum is not None
    z = key_sum.astype(np.float64) if normalize else np.zeros((batch, heads, width))
    scale = 1.0 if normalize else scale
    real, border = segment_marks(segment_ids, batch, length)
    o = np.zeros_like(v)
    states, sums, totals = [], [], []
    for t in range(length):
        live, fresh = real[:, t, None, None], border[:, t, None, None]
        decay = np.where(live, np.exp(g[:, t]), 1)
        S, z = np.where(fresh[..., None], 0, S), np.where(fresh, 0, z)
        states.append(S)
        sums.append(z)
        S = decay[..., None] * S + live[..., None] * k[:, t, :, :, None] * v[:, t, :, None, :]
        z = decay * z + live * k[:, t]
        total = np.einsum("bhk,bhk->bh", q[:, t], z)[..., None] if normalize else np.ones((batch, heads, 1))
        totals.append(total)
        known = live & (total >= 1e-6) if normalize else live
        read = scale * np.einsum("bhk,bhkv->bhv", q[:, t], S)
        o[:, t] = np.where(known, read / np.where(known, total, 1), 0)
    values = (o, S, z if normalize else None)
    if cotangents is None:
        return values, None
    do, dS, dz = (None if array is None else array.astype(np.float64) for array in cotangents)
    dz = np.zeros_like(z) if dz is None else dz
    dq, dk, dv, dg = np.zeros_like(q), np.zeros_like(q), np.zeros_like(v), np.zeros(q.shape)
    for t in reversed(range(length)):
        live, fresh = real[:, t, None, None], border[:, t, None, None]
        decay = np.where(live, np.exp(g[:, t]), 1)
        before, total = states[t], totals[t]
        S = decay[..., None] * before + live[..., None] * k[:, t, :, :, None] * v[:, t, :, None, :]
        known = live & (total >= 1e-6) if normalize else live
        dread = np.where(known, do[:, t] / np.where(known, total, 1), 0)
        dS = dS + scale * q[:, t, :, :, None] * dread[:, :, None, :]
        dq[:, t] = scale * np.einsum("bhkv,bhv->bhk", S, dread)
        if normalize:
            dtotal = -(dread * o[:, t]).sum(-1, keepdims=True)
            dq[:, t] += dtotal * (decay * sums[t] + live * k[:, t])
            dz = dz + dtotal * q[:, t]
        dk[:, t] = live * (np.einsum("bhkv,bhv->bhk", dS, v[:, t]) + dz)
        dv[:, t] = live * np.einsum("bhkv,bhk->bhv", dS, k[:, t])
        dg[:, t] = live * decay * ((dS * before).sum(-1) + dz * sums[t])
        dS = np.where(fresh[..., None], 0, decay[..., None] * dS)
        dz = np.where(fresh, 0, decay * dz)
    gradients = {"q": dq, "k": dk, "v": dv, "kv": dS}
    if normalize:
        gradients["key_sum"] = dz
    if log_decay is not None:
        axes = {1: (0, 1, 3), 3: (3,), 4: ()}[log_decay.ndim]
        gradients["log_decay"] = dg.sum(axis=axes) if axes else dg
    return values, gradients


def causal_conv(x, weight, bias, initial_state, segment_ids):
    """y_t = bias + sum_j weight[W-1-j] x_{t-j} over the real tokens of the document; 0 at padding."""
    batch, length, _ = x.shape
    real, border = segment_marks(segment_ids, batch, length)
    y, state = np.zeros(x.shape), initial_state.astype(np.float64)
    for row in range(batch):
        window = state[row]
        for t in range(length):
            if border[row, t]:
                window = np.zeros_like(window)
            if real[row, t]:
                window = np.concatenate([window, x[row, t][None].astype(np.float64)])
                y[row, t] = (weight.astype(np.float64) * window).sum(0) + (0 if bias is None else bias)
                window = window[1:]
        state[row] = window
    return y, state
