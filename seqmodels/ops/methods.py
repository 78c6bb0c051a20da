"""Which form of an op `method="auto"` takes: one table, by op, tokens and platform.

"step" is the closed form of a single token; only "auto" takes it. "associative" is for elementwise
recurrences on GPU and TPU, where a scan over tokens pays one kernel launch a token. The rest is what
`scripts/benchmark.py ops` found fastest on CPUs; on GPU and TPU it is by counting steps, not yet measured.
"""

import jax

# op -> (method for one token, {platform: ((longest length, or None: any length, method), ...)})
FASTEST = {
    "linear_recurrence": (
        "step",
        {
            "cpu": ((None, "sequential"),),
            "gpu": ((None, "associative"),),
            "tpu": ((None, "associative"),),
        },
    ),
    "linear_attention": (
        "step",
        {
            "cpu": ((None, "chunked"),),
            "gpu": ((None, "chunked"),),
            "tpu": ((None, "chunked"),),
        },
    ),
    "delta_rule": (
        "step",
        {
            "cpu": ((None, "chunked"),),
            "gpu": ((None, "chunked"),),
            "tpu": ((None, "chunked"),),
        },
    ),
    "dplr": (
        "step",
        {
            "cpu": ((None, "chunked"),),
            "gpu": ((None, "chunked"),),
            "tpu": ((None, "chunked"),),
        },
    ),
    "selective_scan": (
        "step",
        {
            "cpu": ((None, "chunked"),),
            "gpu": ((None, "chunked"),),
            "tpu": ((None, "chunked"),),
        },
    ),
    "diagonal_state_space": (
        "step",
        {
            "cpu": ((None, "convolution"),),
            "gpu": ((None, "convolution"),),
            "tpu": ((None, "convolution"),),
        },
    ),
    "long_convolution": (
        "blockwise",
        {
            "cpu": ((256, "blockwise"), (None, "fft")),
            "gpu": ((256, "blockwise"), (None, "fft")),
            "tpu": ((None, "blockwise"),),
        },
    ),
    "softmax_attention": (
        "parallel",
        {
            "cpu": ((255, "parallel"), (None, "blockwise")),
            "gpu": ((1024, "parallel"), (None, "blockwise")),
            "tpu": ((1024, "parallel"), (None, "blockwise")),
        },
    ),
}


def resolve(op_name: str, method: str, offered: tuple[str, ...], length: int) -> str:
    """The method to run: `method` itself, or for "auto" the table's choice for `length` tokens here.

    offered: what the op offers besides "auto". Raises ValueError for a method that is neither.
    """
    if method != "auto":
        if method not in offered:
            raise ValueError(f"{op_name}: method is {method!r}; it offers {', '.join(('auto', *offered))}.")
        return method
    single, platforms = FASTEST[op_name]
    if length == 1:
        return single
    choices = platforms.get(jax.default_backend(), platforms["gpu"])
    return next(name for longest, name in choices if longest is None or length <= longest)
