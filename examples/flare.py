"""FLARE (Puri et al., 2025): the latents and keys that slice also deslice.

    slipstream train poisson --plugin examples/flare.py --variant flare --out runs/flare

Per head, with keys k and values v of the points and learned latents q: tokens =
softmax_points(q k^T) v, update = softmax_latents(k q^T) tokens, then a map of the output
(docs/neighbours.md).
"""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from slipstream import Membership, Size, TokenSums, deslice_tokens, register_variant, slice_points
from slipstream.models import Look, SteppedCoupling, Variant

HIDDEN = 4
"""Hidden layers from x to keys or values in the authors' code."""


class Deep(nn.Module):
    """The authors' map to keys or values: a residual MLP."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(HIDDEN))
        self.last = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.hidden:
            x = x + F.gelu(layer(x), approximate="tanh")
        return x + self.last(x)


class Flare(SteppedCoupling):
    def __init__(self, size: Size, layer: int, how: dict[str, str]) -> None:
        super().__init__()
        self.how, self.heads = how, (size.heads, size.head_width)
        self.latents = nn.Parameter(torch.empty(size.heads, size.slices, size.head_width))
        self.key, self.values = self.projection(size.width), self.projection(size.width)
        self.output = nn.Linear(size.width, size.width)

    def projection(self, width: int) -> nn.Module:
        return Deep(width)

    def membership(self, x: Tensor, previous: None) -> Membership:
        """Over the points; their logits are not scaled, which is a temperature of one."""
        key, one = self.key(x).unflatten(-1, self.heads), torch.ones_like(self.latents[:, 0, 0])
        return Membership(key, self.latents, None, one, over="points")

    def sums(self, x: Tensor, membership: Membership) -> TokenSums:
        return slice_points(membership, self.values(x).unflatten(-1, self.heads), **self.how)

    def mixed(self, sums: TokenSums) -> Tensor:
        return sums.tokens()

    def update(self, x: Tensor, membership: Membership, tokens: Tensor) -> Tensor:
        decode = replace(membership, over="slots")
        return self.output(deslice_tokens(decode, tokens, **self.how).flatten(-2))


class Plain(Flare):
    def projection(self, width: int) -> nn.Module:
        return nn.Linear(width, width)


def structure(size: Size, inside: list[str]) -> dict[str, tuple[int, ...]]:
    """What a checkpoint must hold of a layer, with these maps inside key and values."""
    maps = ["output", *(f"{one}{map}" for one in ("key", "values") for map in inside)]
    shapes = {"weight": (size.width, size.width), "bias": (size.width,)}
    found = {f"{map}.{part}": shapes[part] for map in maps for part in shapes}
    return {"latents": (size.heads, size.slices, size.head_width), **found}


DEEP = [*(f".hidden.{number}" for number in range(HIDDEN)), ".last"]
for name, summary, coupling, inside, look in (
    ("flare", "FLARE, with its deep keys and values", Flare, DEEP, Look("#44AA99", "<")),
    ("flare-plain", "FLARE, keys and values by one map each", Plain, [""], Look("#117733", ">")),
):
    register_variant(
        Variant(
            name, summary, coupling=coupling, budget="L G c", ceiling="no", look=look,
            structure=lambda size, layer, inside=inside: structure(size, inside),
        )
    )  # fmt: skip
