"""One sample's points over the ranks of a process group.

    shard_points(model, group)
    model(coords, features)     # of the points of this rank; the outputs at these points

Every coupling adds its sums up over the ranks before it divides them: one message of B H G (V + 1)
numbers forward and one backward, whatever the number of points. `untied-ln` sends two forward: its
largest normalisers first. The outputs are those of one process with all points, up to the order of
sums. A loss must be one of all points too; then the gradients of a parameter are to be summed over
the ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import cast

import torch.distributed as dist

from slipstream.core.collectives import largest, total
from slipstream.kernels.membership import TokenSums, as_they_are
from slipstream.models.coupling import Coupling
from slipstream.models.steps import SteppedCoupling, Summing
from slipstream.models.transolver import Transolver


@dataclass(frozen=True)
class OverRanks:
    """The sums over the points of all ranks of a group."""

    group: dist.ProcessGroup

    def __call__(self, sums: TokenSums) -> TokenSums:
        return sums.reduced(partial(total, group=self.group), partial(largest, group=self.group))


def shard_points(model: Transolver, group: dist.ProcessGroup | None) -> None:
    """From now on the model is given some of a sample's points, and the other ranks the others.

    They may be of any number on any rank, none included. All ranks of the group must call the model
    alike, forward and backward. None takes it back: the points given are all there are. Raises
    ValueError for a plug-in's coupling that does not leave its sums to `SteppedCoupling.forward`.
    """
    modules = _summing(model)
    complete = as_they_are if group is None else OverRanks(group)
    for module in modules:
        module.complete_sums = complete
    model.may_be_empty = group is not None


def _summing(model: Transolver) -> list[Summing]:
    """The modules of a model that exchange something between points."""
    if model.once is not None:
        return [model.once]
    found: list[Summing] = []
    for block in model.blocks:
        coupling = block.coupling
        if _completes_its_sums(coupling):
            found.append(cast(Summing, coupling))
        elif coupling is not None:
            raise ValueError(
                f"the coupling of variant {model.variant.name!r} must be a SteppedCoupling with the"
                " forward of that, so that its points can be sharded, got"
                f" {type(coupling).__name__} (examples/mean_pool.py is one)"
            )
    return found


def _completes_its_sums(coupling: object) -> bool:
    if type(coupling) is Coupling:
        return True
    return (
        isinstance(coupling, SteppedCoupling) and type(coupling).forward is SteppedCoupling.forward
    )
