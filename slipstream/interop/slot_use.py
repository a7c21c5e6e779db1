"""How the points of a store are divided among the slots of a trained model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from slipstream.evaluation.slices import chunked_weights
from slipstream.interop.token_maps import Clouds
from slipstream.kernels.membership import Membership
from slipstream.models.layers import Slots
from slipstream.models.transolver import Transolver


@dataclass(frozen=True, eq=False)
class SlotUse:
    """Sums over points, of the weights of one set of slots."""

    mass: Tensor
    """(H, G): of the weights."""
    overlap: Tensor
    """(G, G): over the heads too, of the products of the weights of two slots."""
    points: int

    @property
    def share(self) -> Tensor:
        """(H, G): the mean weight of a slot. The shares of a head add up to one."""
        return self.mass / self.points

    def __add__(self, other: SlotUse) -> SlotUse:
        mass, overlap = self.mass + other.mass, self.overlap + other.overlap
        return SlotUse(mass, overlap, self.points + other.points)


@torch.no_grad()
def slot_uses(model: Transolver, clouds: Clouds) -> dict[str, SlotUse]:
    """The use of every set of slots, by the name of its module."""
    uses: dict[str, SlotUse] = {}

    def recorder(name: str) -> Callable[..., None]:
        def record(_: object, __: object, membership: Membership) -> None:
            use = _use(membership)
            uses[name] = uses[name] + use if name in uses else use

        return record

    handles = [
        module.register_forward_hook(recorder(name))
        for name, module in model.named_modules()
        if isinstance(module, Slots)
    ]
    try:
        for batch in clouds():
            model(*batch.inputs)
    finally:
        for handle in handles:
            handle.remove()
    return uses


def _use(membership: Membership) -> SlotUse:
    heads, slices = membership.heads, membership.slices
    mass = torch.zeros(heads, slices, dtype=torch.float64)
    overlap, points = torch.zeros(slices, slices, dtype=torch.float64), 0
    for query in membership.query.split(1):
        for part in chunked_weights(replace(membership, query=query, statistics=None)):
            weights = part.double()
            mass += weights.sum(0).cpu()
            flat = weights.flatten(0, 1)
            overlap += (flat.T @ flat).cpu()
            points += len(weights)
    return SlotUse(mass, overlap, points)
