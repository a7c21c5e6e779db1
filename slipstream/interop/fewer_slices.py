"""Fewer slices in a trained model: unused ones dropped, those that are alike merged.

The heads share the slots, so a slice is unused only if it is in every head. Without its row the
softmax divides each point among the others, which changes no weight by more than the point gave
the slice.

Two slices are alike if their weights are proportional over all points and heads: their logits then
differ by a constant, and the logarithm of the sum of both exponentials is, with p the shares of
their mass, the mean of the logits by p plus the entropy of p. So the merged slot has the mean row
and the mean bias, plus that entropy times the temperature. This is exact for proportional weights
where the heads that use the slices have one temperature; else the bias, which the heads share, can
only meet their mean.

All layers keep as many slices as the one that needs most: `Size.slices` is one number in model
files, plans and the audit, and a layer loses nothing by a few that hardly any point uses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from slipstream.interop.slot_use import SlotUse, slot_uses
from slipstream.interop.token_maps import Clouds, Reduced
from slipstream.models.layers import Slots
from slipstream.models.transolver import Transolver

_SLOTS = re.compile(r"blocks\.(\d+)\.coupling\.(slice_slots|deslice_slots)")


@dataclass(frozen=True)
class Limits:
    """Which slices go. Raises ValueError for limits by which all or none would."""

    drop_unused: float | None = None
    """A slice goes whose share of the points is below this in every head; None for none."""
    merge_alike: float | None = None
    """Two slices become one if the cosine of their weights is at least this; None for none."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is not None and not 0 < value < 1:
                raise ValueError(f"{name} must be above 0 and below 1, got {value}")

    def check_slices(self, slices: int) -> None:
        """Raise ValueError where a slice of average share would be dropped."""
        if self.drop_unused is not None and self.drop_unused >= 1 / slices:
            raise ValueError(
                f"drop_unused must be below 1 / {slices}, the share that one of {slices} slices has"
                f" on average, got {self.drop_unused}"
            )


@dataclass(frozen=True)
class LayerReduction:
    """What became of the slices of a layer."""

    layer: int
    dropped: int
    merged: int
    """How many went into others."""
    kept_for_others: int
    """Unused or alike ones that stayed, since another layer needs as many slices."""
    dropped_share: float
    """The share of the points that the dropped ones had together, in the head where it is most."""


@dataclass(frozen=True)
class Grouping:
    """Which slots of a set become one."""

    groups: tuple[tuple[int, ...], ...]
    dropped: tuple[int, ...] = ()

    def matrix(self, slices: int) -> Tensor:
        """(K, G): one where an old slot goes into a new one."""
        matrix = torch.zeros(len(self.groups), slices, dtype=torch.float64)
        for new, group in enumerate(self.groups):
            matrix[new, list(group)] = 1
        return matrix


def fewer_slices(
    model: Transolver, clouds: Clouds, limits: Limits
) -> tuple[Reduced, list[LayerReduction]]:
    """The model with fewer slices in every layer that has slots, and what became of them.

    Raises ValueError where `limits` would drop slices of average use.
    """
    slices = model.size.slices
    limits.check_slices(slices)
    uses = _by_layer(slot_uses(model, clouds))
    possible = {layer: list(_steps(list(own.values()), limits)) for layer, own in uses.items()}
    removed = min(len(steps) for steps in possible.values())
    groupings = {layer: _taken(steps[:removed], slices) for layer, steps in possible.items()}
    facts = [
        _facts(layer, grouping, len(possible[layer]), list(uses[layer].values()))
        for layer, grouping in groupings.items()
    ]
    weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
    for layer, own in uses.items():
        for name, use in own.items():
            slots = model.get_submodule(name)
            assert isinstance(slots, Slots)
            row, bias = _merged(slots, use, groupings[layer])
            weights[f"{name}.weight"], weights[f"{name}.bias"] = row, bias
    # A layer without slots of its own slices by those of the first.
    groups = [
        groupings.get(layer, groupings[0]).matrix(slices) for layer in range(model.size.layers)
    ]
    return Reduced(_with_slices(model, weights, slices - removed), tuple(groups)), facts


def _by_layer(uses: Mapping[str, SlotUse]) -> dict[int, dict[str, SlotUse]]:
    layers: dict[int, dict[str, SlotUse]] = {}
    for name, use in uses.items():
        match = _SLOTS.fullmatch(name)
        assert match is not None, f"{name} is not in a layer"
        layers.setdefault(int(match.group(1)), {})[name] = use
    return layers


Step = tuple[int, int | None]
"""A slot that goes, and the one that it goes into; None where it is dropped."""


def _steps(uses: Sequence[SlotUse], limits: Limits) -> Iterator[Step]:
    """Slots that may go: the least used, then the most alike of the others.

    Where a layer has slots for deslice too, both must be unused, or alike.
    """
    share = torch.stack([use.share.amax(0) for use in uses]).amax(0)
    left = list(range(len(share)))
    for slot in share.argsort().tolist():
        if limits.drop_unused is not None and share[slot] < limits.drop_unused:
            left.remove(slot)
            yield slot, None
    overlaps = [use.overlap.clone() for use in uses]
    while limits.merge_alike is not None and len(left) > 1:
        likeness, keep, gone = _most_alike(overlaps, left)
        if likeness < limits.merge_alike:
            return
        for overlap in overlaps:  # the weights of the merged slice are the sum of both
            overlap[keep] += overlap[gone]
            overlap[:, keep] += overlap[:, gone]
        left.remove(gone)
        yield gone, keep


def _most_alike(overlaps: Sequence[Tensor], left: Sequence[int]) -> tuple[float, int, int]:
    """The largest cosine of the weights of two slots, and the slots, the lower number first."""
    cosines = []
    for overlap in overlaps:
        own = overlap[left][:, left]
        norm = own.diagonal().sqrt().clamp(min=1e-150)
        cosines.append(own / (norm[:, None] * norm))
    cosine = torch.stack(cosines).amin(0).triu(1)
    first, second = divmod(int(cosine.argmax()), len(left))
    return float(cosine[first, second]), left[first], left[second]


def _taken(steps: Sequence[Step], slices: int) -> Grouping:
    groups = {slot: [slot] for slot in range(slices)}
    dropped = []
    for gone, into in steps:
        members = groups.pop(gone)
        if into is None:
            dropped.append(gone)
        else:
            groups[into] += members
    return Grouping(tuple(tuple(sorted(group)) for group in groups.values()), tuple(dropped))


def _facts(
    layer: int, grouping: Grouping, possible: int, uses: Sequence[SlotUse]
) -> LayerReduction:
    merged = sum(len(group) - 1 for group in grouping.groups)
    dropped = list(grouping.dropped)
    share = max(float(use.share[:, dropped].sum(1).amax()) for use in uses)
    kept = possible - merged - len(dropped)
    return LayerReduction(layer, len(dropped), merged, kept, share)


def _merged(slots: Slots, use: SlotUse, grouping: Grouping) -> tuple[Tensor, Tensor]:
    """Rows and biases of the new slots."""
    assert slots.bias is not None, "the slots of a coupling have a bias"
    weight, bias = slots.weight.detach(), slots.bias.detach()
    temperature = slots.clamped_temperature().detach().double().cpu()
    rows, biases = [], []
    for group in grouping.groups:
        members = list(group)
        if len(members) == 1:  # as it is, to the bit
            rows.append(weight[members[0]])
            biases.append(bias[members[0]])
            continue
        mass = use.mass[:, members]
        share = mass.sum(0) / mass.sum()
        mean_temperature = (mass.sum(1) * temperature).sum() / mass.sum()
        added = mean_temperature * torch.special.entr(share).sum()
        share, added = share.to(weight), added.to(weight)
        rows.append(share @ weight[members])
        biases.append(share @ bias[members] + added)
    return torch.stack(rows), torch.stack(biases)


def _with_slices(model: Transolver, weights: Mapping[str, Tensor], slices: int) -> Transolver:
    smaller = Transolver(
        model.coord_dim, model.feature_dim, model.out_dim, model.variant.name,
        size=replace(model.size, slices=slices), impl=model.how["impl"],
        precision=model.how["precision"], constants=model.constants,
    ).to(model.placeholder)  # fmt: skip
    smaller.load_state_dict(dict(weights))
    return smaller.eval()
