"""Whether tensors are the same to the bit."""

from __future__ import annotations

import torch
from torch import Tensor


def same_bits(one: Tensor, other: Tensor) -> bool:
    return (
        one.dtype == other.dtype
        and one.shape == other.shape
        and torch.equal(number_bytes(one), number_bytes(other))
    )


def number_bytes(tensor: Tensor) -> Tensor:
    """A row of bytes for every number."""
    return tensor.contiguous().reshape(-1, 1).view(torch.uint8)
