"""Mamba's recurrence as a float64 loop with its gradients worked out by hand, and inputs that try it."""

import jax.numpy as jnp
import numpy as np

NAMES = ("x", "dt", "A", "B", "C", "D", "initial_state")
WIDTH, STATE = 5, 3


def reference(inputs, segment_ids, dy, dstate):
    """Float64 y, final state and all gradients of sum(y dy) + sum(state dstate), token by token."""
    x, dt, A, B, C, D, h0 = (np.asarray(inputs[name], np.float64) for name in NAMES)
    gradients = {name: np.zeros(inputs[name].shape) for name in NAMES}
    y, final = np.zeros(x.shape), np.zeros(h0.shape)
    for b in range(x.shape[0]):
        real = np.flatnonzero(segment_ids[b])
        h, steps = h0[b], []
        for i, t in enumerate(real):
            border = i > 0 and segment_ids[b, t] != segment_ids[b, real[i - 1]]
            decay = np.zeros_like(A) if border else np.exp(dt[b, t][:, None] * A)
            before, h = h, decay * h + (dt[b, t] * x[b, t])[:, None] * B[b, t][None, :]
            y[b, t] = h @ C[b, t] + D * x[b, t]
            steps.append((t, decay, before, h))
        final[b] = h
        g = np.asarray(dstate[b], np.float64)
        for t, decay, before, h in reversed(steps):
            g = g + np.outer(dy[b, t], C[b, t])
            gradients["C"][b, t] = dy[b, t] @ h
            gradients["D"] += dy[b, t] * x[b, t]
            added = g @ B[b, t]
            exponent = g * decay * before
            gradients["x"][b, t] = dt[b, t] * added + D * dy[b, t]
            gradients["dt"][b, t] = x[b, t] * added + (A * exponent).sum(axis=1)
            gradients["B"][b, t] = (dt[b, t] * x[b, t]) @ g
            gradients["A"] += dt[b, t][:, None] * exponent
            g = decay * g
        gradients["initial_state"][b] = g
    return y, final, gradients


def rows_of_ids(length):
    """[6, length]: one document; borders in chunks; documents of a token; padding around, inside or alone."""
    t = np.arange(length)
    whole = np.ones(length)
    packed = 1 + (t >= 5) + (t >= length - 2)
    single = np.where(t < length // 2, t + 1, length + 1)
    outside = np.where((t < length // 4) | (t >= length - length // 5), 0, 7)
    inside = np.where(t % 5 == 2, 0, packed)
    return np.stack([whole, packed, single, outside, inside, np.zeros(length)]).astype(np.int32)


def draw(length, dtype, seed=0):
    """Random inputs for `rows_of_ids`; dt A runs from -1e-9 to -1e4 within every row."""
    random = np.random.default_rng(seed)
    batch = 6

    def normal(*shape):
        return random.normal(size=shape)

    inputs = {
        "x": normal(batch, length, WIDTH),
        "dt": 10.0 ** random.uniform(-6, 0, (batch, length, WIDTH)),
        "A": -(10.0 ** random.uniform(-3, 4, (WIDTH, STATE))),
        "B": normal(batch, length, STATE),
        "C": normal(batch, length, STATE),
    }
    inputs = {
        name: jnp.asarray(value, jnp.float32 if name == "A" else dtype) for name, value in inputs.items()
    }
    inputs["D"] = jnp.asarray(normal(WIDTH), jnp.float32)
    inputs["initial_state"] = jnp.asarray(normal(batch, WIDTH, STATE), jnp.float32)
    return inputs, normal(batch, length, WIDTH), normal(batch, WIDTH, STATE)
