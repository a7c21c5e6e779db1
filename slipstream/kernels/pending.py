"""An update of the stream whose bias is added by the kernel that adds it to the stream."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Pending(NamedTuple):
    """What a layer adds to the stream: product + bias."""

    product: Tensor
    bias: Tensor


def finished(update: Tensor | Pending) -> Tensor:
    """The sum, in the dtype of the product, to which the bias is rounded as in a linear layer."""
    if isinstance(update, Tensor):
        return update
    return update.product + update.bias.to(update.product.dtype)
