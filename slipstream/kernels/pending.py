"""An update of the stream that the kernel which adds it computes to its end."""

from __future__ import annotations

from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor


class Pending(NamedTuple):
    """What a layer adds to the stream: rows + bias, or rows' projection + bias."""

    rows: Tensor
    bias: Tensor
    projection: Tensor | None = None
    """(C, K), in the dtype of the rows (..., K)."""
    inner_bias: Tensor | None = None
    """(K): what is projected is not the rows, but the GELU of their sum with this."""
    tanh: bool = False
    """Whether that is the approximate GELU."""


def finished(update: Tensor | Pending) -> Tensor:
    """The update, in the dtype of its rows."""
    if isinstance(update, Tensor):
        return update
    rows = update.rows
    if update.inner_bias is not None:
        approximate = "tanh" if update.tanh else "none"
        rows = F.gelu((rows + update.inner_bias).to(rows.dtype), approximate=approximate)
    if update.projection is not None:
        rows = F.linear(rows, update.projection)
    return (rows + update.bias).to(update.rows.dtype)
