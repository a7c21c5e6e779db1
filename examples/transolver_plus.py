"""Transolver++ (Luo et al., 2025): a temperature for every point, and noise while training.

    slipstream train poisson --plugin examples/transolver_plus.py --variant transolver-plus \
        --out runs/transolver-plus

Weights are softmax((W x + b + noise) / t(x)) of a point's features x, which are sliced themselves.
As [x, 1, noise] / t(x) with slots [W, b, 1] they are a Membership (docs/neighbours.md).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from slipstream import Membership, Size, TokenSums, deslice_tokens, register_variant, slice_points
from slipstream.models import Look, SteppedCoupling, Variant
from slipstream.models.coupling import TokenAttention
from slipstream.models.layers import Mlp, Slots
from slipstream.models.variants import EPSILON


def gumbel_noise(x: Tensor, slices: int) -> Tensor:
    """Noise for each slot, made of later digits of a point's features, (B, N, H, G): what resumes
    or computes a pass again has the same noise."""
    count = torch.arange(1, x.shape[-1] * slices + 1, dtype=torch.float64, device=x.device)
    uniform = (x.detach().double() @ count.square().sin().view(-1, slices) * 1e4) % 1
    return -(-(uniform + 1e-8).log() + 1e-8).log().to(x.dtype)


class TransolverPlus(SteppedCoupling):
    noisy = True
    """Whether training is noisy; evaluation never is."""
    epsilon = EPSILON

    def __init__(self, size: Size, layer: int, how: dict[str, str]) -> None:
        super().__init__()
        self.how, self.heads, width = how, (size.heads, size.head_width), size.head_width
        self.features = nn.Linear(size.width, size.width)
        self.slots = Slots(width, size.slices, size.heads)
        self.temperature = Mlp(width, size.slices, 1)
        self.mix = TokenAttention(width)
        self.output = nn.Linear(size.width, size.width)

    def membership(self, x: Tensor, previous: None) -> tuple[Membership, Tensor]:
        """The membership, and the features, which are its values too."""
        own, x = self.slots, self.features(x).unflatten(-1, self.heads)
        columns, slots = [x, torch.ones_like(x[..., :1])], [own.weight, own.bias[:, None]]
        if self.noisy and self.training:
            columns.append(gumbel_noise(x, len(own.bias)))
            slots.append(torch.eye(len(own.bias), device=x.device, dtype=own.bias.dtype))
        temperature = own.temperature[:, None] + F.gelu(self.temperature(x))
        query = torch.cat(columns, -1) / temperature.clamp(min=0.01)
        one = torch.ones_like(own.temperature)
        return Membership(query, torch.cat(slots, -1), None, one), x

    def sums(self, x: Tensor, membership: tuple[Membership, Tensor]) -> TokenSums:
        return slice_points(*membership, **self.how)

    def mixed(self, sums: TokenSums) -> Tensor:
        return self.mix(sums.tokens(self.epsilon))

    def update(self, x: Tensor, membership: tuple[Membership, Tensor], tokens: Tensor) -> Tensor:
        return self.output(deslice_tokens(membership[0], tokens, **self.how).flatten(-2))


class NoNoise(TransolverPlus):
    noisy = False


def structure(size: Size, layer: int) -> dict[str, tuple[int, ...]]:
    """What a checkpoint must hold of a layer."""
    wide, width, slices = size.width, size.head_width, size.slices
    square = {f"{map}.weight": (wide, wide) for map in ("features", "output")}
    return {
        **square,
        **{name.replace("weight", "bias"): (wide,) for name in square},
        **{f"mix.{map}.weight": (width, width) for map in ("query", "key", "value")},
        **{"slots.weight": (slices, width), "slots.bias": (slices,)},
        **{"slots.temperature": (size.heads,)},
        **{"temperature.expand.weight": (slices, width), "temperature.expand.bias": (slices,)},
        **{"temperature.contract.weight": (1, slices), "temperature.contract.bias": (1,)},
    }


for name, summary, coupling, look in (
    ("transolver-plus", "Transolver++", TransolverPlus, Look("#882255", "<")),
    ("transolver-plus-no-noise", "Transolver++ without noise", NoNoise, Look("#AA4499", ">", "--")),
):
    register_variant(
        Variant(
            name, summary, coupling=coupling, structure=structure, budget="L G c", ceiling="no",
            look=look,
        )
    )  # fmt: skip
