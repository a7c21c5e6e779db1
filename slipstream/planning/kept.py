"""Bytes of a point that a step holds, counted from what the layers save for the backward pass.

Widths C are those of the stream, `a` is the bytes of a number in the dtype of the products (2 under
autocast, 4 in fp32), a stream has 4 bytes a number. A layer of the baseline on a GPU keeps

    stream, twice                     2 x 4 C        as each of its two norms reads it
    norm, query, values, output       4 x a C
    norm of the MLP                   1 x a C
    inside of the MLP, before and after GELU   2 x a x ratio C
    mean and deviation of both norms  16

which is 26 C + 16 in bf16 and 44 C + 16 in fp32; the records of 8, 32 and 48 layers say 26.05 C and
44.05 C (tests/planning/test_records.py).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import prod

from slipstream.models.lean import CHUNK as LEAN_CHUNK
from slipstream.models.lean import CHUNK_ELSEWHERE as LEAN_CHUNK_ELSEWHERE
from slipstream.models.structure import expected_parameters
from slipstream.models.variants import Size, Variant
from slipstream.planning.workload import STREAM_BYTES, Kind, Workload

NORM_STATISTICS = 8
"""Mean and inverse deviation of a row, in fp32."""
CHUNK: dict[Kind, int] = {"cuda": LEAN_CHUNK_ELSEWHERE, "cpu": LEAN_CHUNK["cpu"]}
"""Points of a chunk of lean memory."""


def kept_bytes(work: Workload, kind: Kind) -> float:
    """Of a point, for the backward pass, when it begins."""
    if work.layer_only:
        return _layer_alone(work, kind)
    layers = work.stream_layers
    shared = work.element * work.size.width  # the first layer's query, which all others read
    first = shared if work.description.slicing == "first-layer" else 0
    if work.memory == "lean":  # the stream before each layer that couples, and before what follows
        return (work.couplings + 1) * _stream(work) + first
    if work.memory == "recompute" and layers:
        return _lift(work) + layers * _stream(work) + first
    of_layers = sum(layer_bytes(work, kind, layer) for layer in range(layers))
    return _lift(work) + of_layers + _once(work, kind)


def chunk_bytes(work: Workload, kind: Kind) -> float:
    """What lean memory keeps of a point of one chunk while it is taken again: one layer, or all
    that is pointwise."""
    if work.description.stream == "coupled":
        return layer_bytes(work, kind, 0)
    return kept_bytes(replace(work, memory="normal"), kind)


def layer_bytes(work: Workload, kind: Kind, layer: int) -> float:
    """What one layer keeps of a point."""
    width, element = work.size.width, work.element
    mlp = _stream(work) + element * (width + 2 * work.hidden) + NORM_STATISTICS
    if work.description.stream != "coupled":
        return mlp
    norm = _stream(work) + element * width + NORM_STATISTICS
    return norm + coupling_bytes(work, kind, layer) + mlp


def coupling_bytes(work: Workload, kind: Kind, layer: int = 0) -> float:
    """What a coupling keeps of a point besides its input."""
    width, element, variant = work.size.width, work.element, work.description
    weights = _cpu_weights(work) if kind == "cpu" else 0
    if kind == "cpu" and work.folded:
        return weights  # query, values and outputs of the heads are never formed
    has_query = variant.slicing == "each-layer" or layer == 0
    tensors = 2 + has_query
    if variant.normalised_over == "points":
        tensors = 5  # the output is an MLP as wide as the stream
    return tensors * element * width + _statistics(work, kind) + weights


def parameters(work: Workload) -> int:
    """Numbers that are trained."""
    return _parameters(
        work.description, work.size, work.inputs, work.outputs, layer_only=work.layer_only
    )


@cache
def _parameters(
    variant: Variant, size: Size, inputs: int, outputs: int, *, layer_only: bool
) -> int:
    shapes = expected_parameters(variant, size, coord_dim=inputs, feature_dim=0, out_dim=outputs)
    own = "blocks.0.coupling." if layer_only else ""
    return sum(prod(shape) for name, shape in shapes.items() if name.startswith(own))


def _stream(work: Workload) -> float:
    return STREAM_BYTES * work.size.width


def _lift(work: Workload) -> float:
    """The inside of the lifting MLP before and after GELU, and the inputs as it reads them."""
    return work.element * (4 * work.size.width + work.inputs)


def _once(work: Workload, kind: Kind) -> float:
    """`slice-once`: the lifted features in the dtype of the products, which are its query."""
    if work.description.stream != "token-only":
        return 0
    weights = _cpu_weights(work) if kind == "cpu" else 0
    return work.element * work.size.width + _statistics(work, kind) + weights


def _statistics(work: Workload, kind: Kind) -> float:
    """Largest logit and sum of a point's exponentials by head, which the blocked kernels keep."""
    if kind == "cpu" or not work.blocked:
        return 0
    variant = work.description
    own = variant.deslice == "own" and variant.normalised_over == "slots"
    return 8 * _heads(work) * (2 if own else 1)


def _cpu_weights(work: Workload) -> float:
    """The slice weights, which a CPU keeps where they are no more numbers than the query."""
    weights = _heads(work) * work.slots
    return 4 * weights if weights <= work.size.width else 0


def _heads(work: Workload) -> int:
    return 1 if work.description.stream == "token-only" else work.size.heads


def _layer_alone(work: Workload, kind: Kind) -> float:
    """A coupling and its input, which is cast under autocast."""
    cast = work.element * work.size.width if work.precision == "bf16" else 0
    own = _stream(work) if kind == "cuda" else 0  # on a CPU inputs were there before
    if not work.training:
        formed = 2 * work.element * work.size.width
        return own + cast + (_cpu_weights(work) if kind == "cpu" and work.folded else formed)
    return own + cast + coupling_bytes(work, kind)
