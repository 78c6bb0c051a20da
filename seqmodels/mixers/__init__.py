"""Every sequence mixer, by class name in `MIXERS`. Importing a family's file registers it."""

from seqmodels.mixers.base import MIXERS, Costs, Mixer
from seqmodels.mixers.compressed_attention import CompressedAttention
from seqmodels.mixers.lightning_attention import LightningAttention
from seqmodels.mixers.linear_attention import LinearAttention
from seqmodels.mixers.lru import LRU
from seqmodels.mixers.mamba import Mamba
from seqmodels.mixers.retention import Retention
from seqmodels.mixers.rglru import RGLRU
from seqmodels.mixers.softmax_attention import SoftmaxAttention

__all__ = [
    "LRU",
    "MIXERS",
    "RGLRU",
    "CompressedAttention",
    "Costs",
    "LightningAttention",
    "LinearAttention",
    "Mamba",
    "Mixer",
    "Retention",
    "SoftmaxAttention",
]
