"""The definition, in plain PyTorch: any floating dtype, any shape, differentiable in everything.

It writes the weights (B, H, N, G), which the kernels never do; they are held to it by tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from slipstream.core.checks import autocast_is_on
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
    return _normalised(membership, logits(membership))


def slice_points(membership: Membership, values: Float[Tensor, "B N H V"]) -> TokenSums:
    raw = logits(membership)
    return _sums(membership, raw, _normalised(membership, raw), values)


def deslice_tokens(
    membership: Membership, tokens: Float[Tensor, "B H G V"]
) -> Float[Tensor, "B N H V"]:
    return _at_points(weights(membership), tokens)


def couple(
    membership: Membership,
    values: Float[Tensor, "B N H V"],
    mix: Callable[[TokenSums], Tensor],
) -> Float[Tensor, "B N H V"]:
    """Slice, mix, deslice: one membership, so its weights are formed once."""
    raw = logits(membership)
    w = _normalised(membership, raw)
    return _at_points(w, mix(_sums(membership, raw, w, values)))


def _normalised(membership: Membership, raw: Tensor) -> Tensor:
    return raw.softmax(-1 if membership.over == "slots" else -2)


def _at_points(w: Tensor, tokens: Tensor) -> Tensor:
    return torch.matmul(w, tokens).transpose(1, 2)


def _sums(membership: Membership, raw: Tensor, w: Tensor, values: Tensor) -> TokenSums:
    """Sums in fp32 at least, of products of numbers that autocast has rounded where it is on. In a
    backward pass a gradient is such a number too."""
    wide = torch.promote_types(values.dtype, torch.float32)
    normalizer = raw.to(wide).logsumexp(-2) if membership.over == "points" else None
    mass = w.to(wide).sum(-2)
    device = values.device.type
    if not autocast_is_on(values.device) or wide == torch.float64:
        return TokenSums(_weighted_sums(w.to(wide), values.to(wide)), mass, normalizer)
    rounded = torch.get_autocast_dtype(device)
    with torch.autocast(device, enabled=False):
        numerator = _weighted_sums(w.to(rounded).to(wide), values.to(rounded).to(wide))
    rounding = _RoundedGradient.apply(numerator, rounded)  # type: ignore[no-untyped-call]
    return TokenSums(rounding, mass, normalizer)


class _RoundedGradient(torch.autograd.Function):
    """The tensor itself, whose gradient is rounded: it goes into products, as autocast has them."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, rounded: torch.dtype) -> Tensor:
        ctx.rounded = rounded
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (gradient,) = gradients
        return gradient.to(ctx.rounded).to(gradient.dtype), None


def _weighted_sums(w: Tensor, values: Tensor) -> Tensor:
    return torch.matmul(w.transpose(-1, -2), values.transpose(1, 2))
