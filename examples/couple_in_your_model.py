"""Slice and deslice in a model of your own: the layer that lets all points know of each other.

    python examples/couple_in_your_model.py       # five seconds

Each point must tell the mean charge of its cloud, which no network knows that sees one point.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from slipstream import Membership, couple

WIDTH, HEADS, SLICES = 32, 4, 8


class Layer(nn.Module):
    """x + coupling(x), then a pointwise network: (B, N, C) to (B, N, C)."""

    def __init__(self, coupled: bool) -> None:
        super().__init__()
        self.coupled, head = coupled, WIDTH // HEADS
        self.query, self.values = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.slot_weight = nn.Parameter(torch.randn(SLICES, head))
        self.temperature = nn.Parameter(torch.full((HEADS,), 0.5))
        self.mix = nn.Linear(head, head)  # of tokens (B, H, G, C / H): any function will do
        self.pointwise = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        if self.coupled:
            query, values = (own(x).unflatten(-1, (HEADS, -1)) for own in (self.query, self.values))
            # How much of a point belongs to each slot; (points x heads x slots) is never stored.
            membership = Membership(query, self.slot_weight, None, self.temperature)
            x = x + couple(membership, values, self.mix, epsilon=1e-5).flatten(-2)
        return x + self.pointwise(x)


def train(coupled: bool, steps: int) -> float:
    """The relative error of the last step."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, WIDTH), Layer(coupled), Layer(coupled), nn.Linear(WIDTH, 1))
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(steps):
        places, charge = torch.rand(8, 64, 3), torch.rand(8, 1, 1) * torch.rand(8, 64, 1)
        target = charge.mean(1, keepdim=True) * places[..., :1]
        error = (model(torch.cat((places, charge), -1)) - target).abs().mean() / target.abs().mean()
        optimiser.zero_grad()
        error.backward()
        optimiser.step()
    return error.item()


def main(steps: int = 300) -> None:
    print(f"points by themselves: error {train(False, steps):.2f}")
    print(f"points coupled:       error {train(True, steps):.2f}")


if __name__ == "__main__":
    main()
