"""An order in which points that are close in space are mostly close in a list: the Z-order curve.

The place of a point along the curve is a number whose bits are those of its coordinates in turn:
(x, y) = (0b10, 0b11) has the code 0b1110, of which the lowest bit is x's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def z_order_codes(cells: NDArray[np.integer[Any]], bits: int) -> NDArray[np.uint64]:
    """The places along the curve of cells (N, axes), whole numbers of `bits` bits, (N,)."""
    axes = cells.shape[1]
    if bits * axes > 64:
        raise ValueError(f"codes must have at most 64 bits, got {axes} axes of {bits} bits")
    whole = cells.astype(np.uint64)
    codes = np.zeros(len(cells), np.uint64)
    for bit in range(bits):
        for axis in range(axes):
            one = (whole[:, axis] >> np.uint64(bit)) & np.uint64(1)
            codes |= one << np.uint64(bit * axes + axis)
    return codes
