"""A variant of one's own in one file: every point receives the mean over all points.

    slipstream train poisson --plugin examples/mean_pool.py --variant mean-pool --out runs/mean-pool
    slipstream audit runs/mean-pool --plugin examples/mean_pool.py

This is the averaging operator of Proposition 1 (docs/method.md). `no-token-attention` with one
slice is it too, and has parameters besides that no gradient reaches.
"""

from __future__ import annotations

from torch import Tensor, nn

from slipstream import Size, register_variant
from slipstream.models import Look, Variant


class MeanPool(nn.Module):
    """Takes the place of slice and deslice in a layer."""

    def __init__(self, size: Size, layer: int, how: object) -> None:
        super().__init__()
        self.values = nn.Linear(size.width, size.width)
        self.output = nn.Linear(size.width, size.width)

    def forward(self, x: Tensor, previous: None) -> tuple[Tensor, None]:
        """(B, N, C) -> its update, and no membership for the layers after it."""
        mean = self.values(x).mean(1, keepdim=True)
        return self.output(mean).expand_as(x), None


def structure(size: Size, layer: int) -> dict[str, tuple[int, ...]]:
    """What a checkpoint must hold of a layer: written down again, so that it can be compared."""
    square, vector = (size.width, size.width), (size.width,)
    return {
        "values.weight": square,
        "values.bias": vector,
        "output.weight": square,
        "output.bias": vector,
    }


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
