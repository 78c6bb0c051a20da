"""Each mixer once more: its paper's equation over one document, in float64 and without any of our ops.

A reference takes the parameters as a nested dict of arrays and x [B, T, D], and returns y [B, T, D].
Recurrent mixers step through time; attention holds every pair. Being JAX, references have gradients.
"""

from tests.mixers.references.linear_attention import linear_attention
from tests.mixers.references.mamba import mamba
from tests.mixers.references.softmax_attention import softmax_attention

# Every registered mixer has an entry: the forms test refuses one without.
REFERENCES = {
    "LinearAttention": linear_attention,
    "Mamba": mamba,
    "SoftmaxAttention": softmax_attention,
}
