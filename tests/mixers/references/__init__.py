"""Each mixer once more: its paper's equation over one document, in float64 and without any of our ops.

A reference takes the parameters as a nested dict of arrays and x [B, T, D], and returns y [B, T, D].
Recurrent mixers step through time; attention holds every pair. Being JAX, references have gradients.
"""

from tests.mixers.references.compressed_attention import compressed_attention
from tests.mixers.references.fixed_decay import lightning_attention, retention
from tests.mixers.references.diagonal import lru
from tests.mixers.references.linear_attention import linear_attention
from tests.mixers.references.mamba import mamba
from tests.mixers.references.rglru import rglru
from tests.mixers.references.softmax_attention import softmax_attention

# Every registered mixer has an entry: the forms test refuses one without.
REFERENCES = {
    "CompressedAttention": compressed_attention,
    "LightningAttention": lightning_attention,
    "LRU": lru,
    "LinearAttention": linear_attention,
    "Mamba": mamba,
    "RGLRU": rglru,
    "Retention": retention,
    "SoftmaxAttention": softmax_attention,
}
