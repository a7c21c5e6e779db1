"""A variant of one's own in one file: every point receives the mean over all points.

    slipstream train poisson --plugin examples/mean_pool.py --variant mean-pool --out runs/mean-pool
    slipstream audit runs/mean-pool --plugin examples/mean_pool.py

This is the averaging operator of Proposition 1 (docs/method.md). `no-token-attention` with one
slice is it too, and has parameters besides that no gradient reaches.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from slipstream import Size, TokenSums, register_variant
from slipstream.models import Look, SteppedCoupling, Variant


class MeanPool(SteppedCoupling):
    """Takes the place of slice and deslice in a layer, in four steps: so clouds of any size can be
    streamed through the model."""

    def __init__(self, size: Size, layer: int, how: object) -> None:
        super().__init__()
        self.values = nn.Linear(size.width, size.width)
        self.output = nn.Linear(size.width, size.width)

    def membership(self, x: Tensor, previous: None) -> None:
        """Every point belongs to the one slot that there is."""

    def sums(self, x: Tensor, membership: None) -> TokenSums:
        """The sum over these points, (B, 1, 1, C), and their number."""
        total = self.values(x).sum(1)[:, None, None]
        return TokenSums(total, torch.full_like(total[..., 0], x.shape[1]))

    def mixed(self, sums: TokenSums) -> Tensor:
        return self.output(sums.tokens())

    def update(self, x: Tensor, membership: None, tokens: Tensor) -> Tensor:
        return tokens[:, 0].expand_as(x)


def structure(size: Size, layer: int) -> dict[str, tuple[int, ...]]:
    """What a checkpoint must hold of a layer: written down again, so that it can be compared."""
    shapes = {"weight": (size.width, size.width), "bias": (size.width,)}
    return {f"{map}.{part}": shapes[part] for map in ("values", "output") for part in shapes}


register_variant(
    Variant(
        "mean-pool",
        "every point receives the mean over all points",
        coupling=MeanPool,
        structure=structure,
        budget="L c",
        ceiling="no",
        look=Look("#B2182B", "*"),
        label="mean pool",
    )
)
