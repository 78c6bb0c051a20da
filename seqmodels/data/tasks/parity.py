"""Parity: is the number of ones so far even or odd?

The group words of Z2 under their own name: the smallest task whose state no sum with decay holds at every
length. A linear recurrence follows it where its transition can be negative.
(Grazzi, Siems, Zela, Franke, Hutter, Pontil, "Unlocking state-tracking in linear RNNs through negative
eigenvalues", ICLR 2025.)
"""

import gin

from seqmodels.data.tasks.group_words import GroupWords


@gin.register
class Parity(GroupWords):
    """Rows of parity. Token ids: the bits 0 and 1, then the answers even and odd."""

    def __init__(self, length: int | tuple[int, ...] = (8, 16, 32), last_only: bool = False):
        """As `GroupWords` has them."""
        super().__init__("Z2", length, last_only)
