"""Entropy, effective number and use of the slices of a trained model, per layer and head.

    with probing(model) as probe:
        model(coords, features)
    probe.layers["blocks.0.coupling.slice_slots"].entropy

The weights (N, H, G) of a layer are in memory for one chunk of points at a time. Weights normalised
over the points (LinearNO's slice weights) say nothing about how a point is divided among the
slices, so for those variants the deslice weights, which are normalised over the slots, are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from slipstream.core.shapes import Float
from slipstream.kernels.membership import Membership
from slipstream.kernels.reference import weights
from slipstream.models.layers import Slots
from slipstream.runs.evaluation_file import LayerSlices

CHUNK = 16_384
"""Points whose weights are held at a time."""
DEAD = 0.01
"""A slice is dead whose mean weight is below this share of the uniform one, 1 / G."""


@dataclass
class Probe:
    """The slices of the last forward pass inside `probing`."""

    points: int
    """The number of points at which the weights of the last layer are kept."""
    layers: dict[str, LayerSlices] = field(default_factory=dict)
    weights: Float[Tensor, "M H G"] | None = None
    """Weights of the last layer with slices."""


@contextmanager
def probing(model: nn.Module, points: int = 0) -> Iterator[Probe]:
    """Record every membership that the model makes inside the context, one layer at a time."""
    probe = Probe(points)
    handles = [
        module.register_forward_hook(_recorder(name, probe))
        for name, module in model.named_modules()
        if isinstance(module, Slots) and module.over == "slots" and not _is_second(name, model)
    ]
    try:
        yield probe
    finally:
        for handle in handles:
            handle.remove()


def _is_second(name: str, model: nn.Module) -> bool:
    """Whether these are the deslice slots of a layer whose slice slots are recorded already."""
    parent, _, own = name.rpartition(".")
    slicing = getattr(model.get_submodule(parent), "slice_slots", None)
    return own == "deslice_slots" and isinstance(slicing, Slots) and slicing.over == "slots"


def _recorder(name: str, probe: Probe) -> Callable[[nn.Module, object, Membership], None]:
    def record(_: nn.Module, __: object, membership: Membership) -> None:
        probe.layers[name] = layer_slices(name, membership)
        if probe.points:
            first = replace(membership, query=membership.query[:, : probe.points])
            probe.weights = torch.cat(list(chunked_weights(first)))

    return record


def layer_slices(name: str, membership: Membership) -> LayerSlices:
    """Temperature, entropy, effective number and dead slices of a layer on one sample."""
    heads, slots = membership.heads, membership.slices
    entropy = torch.zeros(heads, dtype=torch.float64)
    mass = torch.zeros(heads, slots, dtype=torch.float64)
    points = 0
    for part in chunked_weights(membership):
        entropy += point_entropy(part).sum(0).double().cpu()
        mass += part.sum(0).double().cpu()
        points += len(part)
    mean = mass / points
    spread = -(mean * mean.clamp(min=1e-300).log()).sum(-1)
    return LayerSlices(
        name,
        slots,
        tuple(membership.temperature.tolist()),
        tuple((entropy / points).tolist()),
        tuple(spread.exp().tolist()),
        tuple((mean < DEAD / slots).sum(-1).tolist()),
    )


def chunked_weights(membership: Membership) -> Iterator[Float[Tensor, "n H G"]]:
    """The weights of the first sample, a chunk of points at a time, in fp32 at least."""
    for start in range(0, membership.query.shape[1], CHUNK):
        query = membership.query[:1, start : start + CHUNK]
        query = query.to(torch.promote_types(query.dtype, torch.float32))
        part = replace(
            membership,
            query=query,
            slot_weight=membership.slot_weight.to(query.dtype),
            slot_bias=None
            if membership.slot_bias is None
            else membership.slot_bias.to(query.dtype),
            temperature=membership.temperature.to(query.dtype),
            statistics=None,
        )
        yield weights(part)[0].transpose(0, 1)


def point_entropy(weights: Float[Tensor, "n H G"]) -> Float[Tensor, "n H"]:
    """Entropy of each point's weights, in nats."""
    return torch.special.entr(weights).sum(-1)


@dataclass(frozen=True)
class Match:
    """A slice function of one run and the one of another that is closest to it."""

    first: int
    second: int
    similarity: float
    """Cosine over the points, in [0, 1]."""


def match_slices(first: NDArray[Any], second: NDArray[Any]) -> list[Match]:
    """Pair up the columns of two (points, functions) by the Hungarian method, closest first.

    No other pairing has a larger sum of cosine similarities.
    """
    if len(first) != len(second):
        raise ValueError(
            f"both must be functions of the same points, got {len(first)} and {len(second)} points"
        )
    from scipy import optimize  # here: it takes 0.1 s to import

    similarity = _unit_columns(first).T @ _unit_columns(second)
    rows, columns = optimize.linear_sum_assignment(-similarity)
    matches = [
        Match(int(r), int(c), float(similarity[r, c])) for r, c in zip(rows, columns, strict=True)
    ]
    return sorted(matches, key=lambda match: -match.similarity)


def _unit_columns(functions: NDArray[Any]) -> NDArray[np.float64]:
    wide = np.asarray(functions, np.float64)
    norm = np.linalg.norm(wide, axis=0)
    return wide / np.where(norm > 0, norm, 1)
