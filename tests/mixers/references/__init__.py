"""Each mixer once more: its paper's equation over one document, in float64 and without any of our ops.

A reference takes the parameters as a nested dict of arrays and x [B, T, D], and returns y [B, T, D].
Recurrent mixers step through time; attention holds every pair. Being JAX, references have gradients.
"""

from tests.mixers.references.compressed_attention import compressed_attention
from tests.mixers.references.delta_net import delta_net, gated_delta_net, kimi_delta_attention
from tests.mixers.references.diagonal import lru, s4d, s5
from tests.mixers.references.fixed_decay import lightning_attention, retention
from tests.mixers.references.gated_memory import gated_linear_attention, hgrn2
from tests.mixers.references.linear_attention import linear_attention
from tests.mixers.references.long_convolution import long_convolution
from tests.mixers.references.mamba import mamba
from tests.mixers.references.mamba2 import mamba2
from tests.mixers.references.mlstm import mlstm
from tests.mixers.references.rglru import rglru
from tests.mixers.references.rwkv7 import rwkv7
from tests.mixers.references.softmax_attention import softmax_attention

# Every registered mixer has an entry: the forms test refuses one without.
REFERENCES = {
    "CompressedAttention": compressed_attention,
    "DeltaNet": delta_net,
    "GatedDeltaNet": gated_delta_net,
    "GatedLinearAttention": gated_linear_attention,
    "HGRN2": hgrn2,
    "KimiDeltaAttention": kimi_delta_attention,
    "LRU": lru,
    "LightningAttention": lightning_attention,
    "LinearAttention": linear_attention,
    "MLSTM": mlstm,
    "LongConvolution": long_convolution,
    "Mamba": mamba,
    "Mamba2": mamba2,
    "RGLRU": rglru,
    "RWKV7": rwkv7,
    "Retention": retention,
    "S4D": s4d,
    "S5": s5,
    "SoftmaxAttention": softmax_attention,
}
