"""Sequence operations: pure functions on arrays, which know no modules and no configuration."""

from seqmodels.ops.attention import softmax_attention
from seqmodels.ops.conv import causal_conv
from seqmodels.ops.delta_rule import delta_rule
from seqmodels.ops.diagonal_state_space import diagonal_state_space
from seqmodels.ops.dplr import dplr
from seqmodels.ops.linear_attention import LinearAttentionState, linear_attention
from seqmodels.ops.long_convolution import long_convolution
from seqmodels.ops.recurrence import linear_recurrence
from seqmodels.ops.selective_scan import selective_scan

__all__ = [
    "LinearAttentionState",
    "causal_conv",
    "delta_rule",
    "diagonal_state_space",
    "dplr",
    "linear_attention",
    "linear_recurrence",
    "long_convolution",
    "selective_scan",
    "softmax_attention",
]
