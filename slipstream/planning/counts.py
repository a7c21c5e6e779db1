"""Operations and bytes of a step, counted from the equations: what its time is made of.

Numbers are of one point, of all layers together. A product of widths A and B is 2 A B operations;
the backward pass has two products for each of the forward pass. Slice and deslice together have
four products of C x G in the forward pass (logits and sums, logits and outputs); their backward
computes the logits again. Bytes are those that each kernel reads and writes; nothing is assumed to
stay in a cache.
"""

from __future__ import annotations

from dataclasses import dataclass

from slipstream.planning.kept import CHUNK
from slipstream.planning.workload import STREAM_BYTES, Kind, Memory, Workload

PRODUCTS = {
    "single-tile": {"forward": 4, "tied": 8, "own": 10},
    "blocked": {"forward": 5, "tied": 12, "own": 16},
    "folded": {"forward": 3, "tied": 6, "own": 6},
    "chunked": {"forward": 4, "tied": 8, "own": 10},
}
"""Products of channels and slots in slice and deslice together: of the forward pass, and of the
backward pass of both together or of each apart. The blocked kernels form logits and gradients of
the weights once for the points and once for the slots."""
BACKWARD_CALLS = 3.5
"""Kernels of a backward pass for each of the forward pass."""
AGAIN: dict[Memory, float] = {"normal": 0.0, "recompute": 0.8, "lean": 1.4}
"""Forward passes of the layers that a step has besides. Recomputing stops before the MLP's last
product, whose result nobody needs. Lean memory goes through the points twice in a layer, for the
sums and with the tokens, each with a norm and a query, and takes both again in the backward."""
COUPLING_CALLS, MLP_CALLS, REST_CALLS = 14, 5, 10
"""Kernels of a forward pass of a coupling, an MLP with its norm, and of lift, head and loss."""


@dataclass(frozen=True)
class Counts:
    """Of one step and one point, but for the calls."""

    linear: float
    """Operations of the layers' matrix products."""
    slices: float
    """Operations of slice and deslice."""
    moved: float
    """Bytes read and written."""
    calls: float
    """Kernels of the whole step, whatever its points."""


def counts(work: Workload, kind: Kind) -> Counts:
    """What a step computes. Recomputing adds a part of a forward pass of the layers."""
    linear = _linear(work, kind)
    slices, slices_back = _slices(work, kind)
    moved, moved_back = _moved(work, kind)
    calls = _calls(work) * (-(-work.points // CHUNK[kind]) if work.memory == "lean" else 1)
    if not work.training:
        return Counts(linear, slices, moved, calls)
    again = AGAIN[work.memory]
    return Counts(
        3 * linear + again * _linear_of_layers(work, kind),
        slices + slices_back + again * slices,
        moved + moved_back + again * _moved_of_layers(work, kind)[0],
        calls * (1 + BACKWARD_CALLS + again),
    )


def _linear(work: Workload, kind: Kind) -> float:
    if work.layer_only:
        return _coupling_products(work, kind)
    width = work.size.width
    ends = 2 * (work.inputs * 2 * width + 2 * width * width + width * work.outputs)
    return ends + _linear_of_layers(work, kind)


def _linear_of_layers(work: Workload, kind: Kind) -> float:
    mlp = 4 * work.hidden * work.size.width * work.stream_layers
    if work.description.stream != "coupled":
        return mlp
    return mlp + work.couplings * _coupling_products(work, kind) - _missing_queries(work, kind)


def _coupling_products(work: Workload, kind: Kind) -> float:
    """Query, values and output of one coupling; a folded one has products with slots instead."""
    size = work.size
    if kind == "cpu" and work.folded:
        return 0
    if work.description.normalised_over == "points":
        return 2 * size.width * (3 * size.width + size.head_width)
    return 6 * size.width**2


def _missing_queries(work: Workload, kind: Kind) -> float:
    if work.description.slicing != "first-layer" or (kind == "cpu" and work.folded):
        return 0
    return 2 * work.size.width**2 * (work.couplings - 1)


def _slices(work: Workload, kind: Kind) -> tuple[float, float]:
    """Operations of slice and deslice, forward and backward."""
    if not work.couplings:
        return 0, 0
    if kind == "cpu":
        family = "folded" if work.folded else "chunked"
    else:
        family = "blocked" if work.blocked else "single-tile"
    apart = work.description.deslice == "own" or work.description.normalised_over == "points"
    apart = apart or work.memory == "lean"
    products = PRODUCTS[family]
    dense = work.size.heads if family == "folded" else 1  # over all heads at once
    each = 2 * work.size.width * work.slots * dense * work.couplings
    return each * products["forward"], each * products["own" if apart else "tied"]


def _moved(work: Workload, kind: Kind) -> tuple[float, float]:
    """Bytes of the forward and of the backward pass."""
    forward, backward = _moved_of_layers(work, kind)
    if work.layer_only:
        # The input is cast; on a GPU the bench takes a loss of the output in fp32.
        cast = (STREAM_BYTES + work.element) * work.size.width if work.precision == "bf16" else 0
        loss = 10 * STREAM_BYTES * work.size.width if kind == "cuda" else 0
        return forward + cast, backward + cast + loss
    width, element = work.size.width, work.element
    lift = element * 4 * 2 * width + element * width + 2 * STREAM_BYTES * width
    head = STREAM_BYTES * width + 2 * element * width
    return forward + lift + head, backward + 2 * (lift + head)


def _moved_of_layers(work: Workload, kind: Kind) -> tuple[float, float]:
    """Forward and backward; `x` is a tensor as wide as the stream in the dtype of the products."""
    width, stream, x = work.size.width, STREAM_BYTES, work.element
    ratio = work.hidden / width
    norm, norm_back = 2 * stream + 2 * x, 3 * stream + 2 * x
    mlp, mlp_back = (2 + 4 * ratio) * x, (4 + 7 * ratio) * x
    coupling, coupling_back = _coupling_passes(work, kind)
    norms = work.stream_layers * (2 if work.description.stream == "coupled" else 1)
    forward = norms * norm + work.stream_layers * mlp + work.couplings * coupling * x
    backward = norms * norm_back + work.stream_layers * mlp_back
    return width * forward, width * (backward + work.couplings * coupling_back * x)


def _coupling_passes(work: Workload, kind: Kind) -> tuple[float, float]:
    """Tensors as wide as the stream that the kernels of a coupling read and write."""
    variant = work.description
    if kind == "cpu" and work.folded:
        return 3, 6
    if variant.stream == "token-only":
        return 5, 10  # slice and deslice, without projections
    forward, backward = 10.0, 22.0
    if variant.normalised_over == "points":  # an MLP as the output, and values from the query
        forward, backward = forward + 4, backward + 12
    elif variant.deslice == "own":
        backward += 4  # two backward kernels in place of one
    if variant.slicing == "first-layer":
        forward, backward = forward - 1.75, backward - 3.5
    return forward + (1 if work.blocked else 0), backward


def _calls(work: Workload) -> float:
    """Kernels of a forward pass."""
    if work.layer_only:
        return REST_CALLS + COUPLING_CALLS
    if work.description.stream == "token-only":
        return REST_CALLS + (COUPLING_CALLS + MLP_CALLS) * work.size.layers
    return REST_CALLS + COUPLING_CALLS * work.couplings + MLP_CALLS * work.stream_layers
