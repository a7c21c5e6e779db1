"""Memberships of every layout, for the tests of this folder."""

from __future__ import annotations

import torch
from torch import Tensor

from slipstream.kernels.membership import Axis, Membership

B, N, H, G, D, V = 2, 5, 3, 4, 2, 3
WEIGHT_LAYOUTS = {"shared": (G, D), "per-head": (H, G, D), "per-sample": (B, H, G, D)}
BIAS_LAYOUTS = {"none": None, "shared": (G,), "per-head": (H, G), "per-sample": (B, H, G)}


def parts(
    weight: str = "shared", bias: str = "shared", query_heads: int = H, points: int = N
) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """query, slot weight, slot bias and temperature in fp64, each asking for its gradient."""
    draw = torch.Generator().manual_seed(0)

    def randn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=draw, dtype=torch.float64).requires_grad_()

    bias_shape = BIAS_LAYOUTS[bias]
    temperature = torch.linspace(0.5, 1.5, H, dtype=torch.float64).requires_grad_()
    return (
        randn(B, points, query_heads, D),
        randn(*WEIGHT_LAYOUTS[weight]),
        None if bias_shape is None else randn(*bias_shape),
        temperature,
    )


def membership(over: Axis = "slots", points: int = N) -> Membership:
    return Membership(*parts(points=points), over)


def values(points: int = N) -> Tensor:
    draw = torch.Generator().manual_seed(1)
    return torch.randn(B, points, H, V, generator=draw, dtype=torch.float64).requires_grad_()


def tokens() -> Tensor:
    draw = torch.Generator().manual_seed(2)
    return torch.randn(B, H, G, V, generator=draw, dtype=torch.float64).requires_grad_()
