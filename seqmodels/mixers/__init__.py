"""Every sequence mixer, by class name in `MIXERS`. Importing a family's file registers it."""

from seqmodels.mixers.base import MIXERS, Costs, Mixer
from seqmodels.mixers.compressed_attention import CompressedAttention
from seqmodels.mixers.delta_net import DeltaNet, GatedDeltaNet, KimiDeltaAttention
from seqmodels.mixers.gated_linear_attention import GatedLinearAttention
from seqmodels.mixers.hgrn2 import HGRN2
from seqmodels.mixers.lightning_attention import LightningAttention
from seqmodels.mixers.linear_attention import LinearAttention
from seqmodels.mixers.long_convolution import LongConvolution
from seqmodels.mixers.lru import LRU
from seqmodels.mixers.mamba import Mamba
from seqmodels.mixers.mamba2 import Mamba2
from seqmodels.mixers.mlstm import MLSTM
from seqmodels.mixers.retention import Retention
from seqmodels.mixers.rglru import RGLRU
from seqmodels.mixers.rwkv7 import RWKV7
from seqmodels.mixers.s4d import S4D
from seqmodels.mixers.s5 import S5
from seqmodels.mixers.softmax_attention import SoftmaxAttention

__all__ = [
    "HGRN2",
    "LRU",
    "MIXERS",
    "MLSTM",
    "RGLRU",
    "RWKV7",
    "S4D",
    "S5",
    "CompressedAttention",
    "Costs",
    "DeltaNet",
    "GatedDeltaNet",
    "GatedLinearAttention",
    "KimiDeltaAttention",
    "LightningAttention",
    "LinearAttention",
    "LongConvolution",
    "Mamba",
    "Mamba2",
    "Mixer",
    "Retention",
    "SoftmaxAttention",
]
