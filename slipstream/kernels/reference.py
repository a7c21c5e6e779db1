"""The definition, in plain PyTorch: any floating dtype, any shape, differentiable in everything.

It writes the weights (B, H, N, G), which the fused kernels never do; they are held to it by tests.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from slipstream.core.shapes import Float
from slipstream.kernels.membership import Membership, TokenSums


def logits(membership: Membership) -> Float[Tensor, "B H N G"]:
    """Slot logits, divided by the temperature."""
    query, weight, bias = membership.query, membership.slot_weight, membership.slot_bias
    if weight.ndim == 2 and (bias is None or bias.ndim == 1):
        raw = F.linear(query, weight, bias).transpose(1, 2)
    else:
        raw = torch.matmul(query.transpose(1, 2), weight.transpose(-1, -2))
        if bias is not None:
            raw = raw + bias[..., None, :]
    return raw / membership.temperature[:, None, None]


def weights(membership: Membership) -> Float[Tensor, "B H N G"]:
    """The slice weights themselves: for this file, for tests and for figures."""
    return logits(membership).softmax(-1 if membership.over == "slots" else -2)


def slice_points(membership: Membership, values: Float[Tensor, "B N H V"]) -> TokenSums:
    w = weights(membership)
    numerator = torch.matmul(w.transpose(-1, -2), values.transpose(1, 2))
    normalizer = logits(membership).logsumexp(-2) if membership.over == "points" else None
    return TokenSums(numerator, w.sum(-2), normalizer)


def deslice_tokens(
    membership: Membership, tokens: Float[Tensor, "B H G V"]
) -> Float[Tensor, "B N H V"]:
    return torch.matmul(weights(membership), tokens).transpose(1, 2)
