"""Sequence operations: pure functions on arrays, which know no modules and no configuration."""

from seqmodels.ops.attention import softmax_attention
from seqmodels.ops.conv import causal_conv
from seqmodels.ops.delta_rule import delta_rule
from seqmodels.ops.dplr import dplr
from seqmodels.ops.linear_attention import LinearAttentionState, linear_attention
from seqmodels.ops.recurrence import linear_recurrence
from seqmodels.ops.selective_scan import selective_scan

__all__ = [
    "LinearAttentionState",
    "causal_conv",
    "delta_rule",
    "dplr",
    "linear_attention",
    "linear_recurrence",
    "selective_scan",
    "softmax_attention",
]
