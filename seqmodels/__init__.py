"""Train small language models in JAX and find out what their sequence mixers can remember.

Dimension letters, used in einsum strings and shapes throughout:
    B batch, T time, D model width, H heads, G key/value groups, K key dim per head, V value dim per head,
    N state dim, E inner width of a Mamba block, F feed-forward width, W short-convolution width,
    C chunk length.

Floors, lowest first; nothing imports upwards:
    ops -> nn -> mixers -> language_model -> (generation, accounting) -> training, evaluation -> entry points.
    errors stands below all; config and data stand beside them and know nothing of models.
"""
