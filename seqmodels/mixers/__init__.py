"""Every sequence mixer, by class name in `MIXERS`. Importing a family's file registers it."""

from seqmodels.mixers.base import MIXERS, Costs, Mixer
from seqmodels.mixers.linear_attention import LinearAttention
from seqmodels.mixers.mamba import Mamba
from seqmodels.mixers.softmax_attention import SoftmaxAttention

__all__ = ["MIXERS", "Costs", "LinearAttention", "Mamba", "Mixer", "SoftmaxAttention"]
