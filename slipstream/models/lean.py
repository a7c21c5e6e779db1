"""Lean memory: training as streaming, so that autograd keeps one tensor a layer.

Points go through a layer in chunks, as they do in `sweeps.py`: the sums of every chunk, added up;
their tokens, mixed once; every chunk after the layer. Each of the two steps on a chunk is
checkpointed: the backward pass takes it again, from the stream before the layer and, in the second
step, from the tokens. What is kept is therefore the stream before each layer and before the head,
and the tokens, which are few. Slicing all points, mixing, and whatever reduces sums over processes
happen once: they lie between the checkpoints.

All gradients are autograd's own: they reach each parameter once, after all chunks.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from slipstream.core.checks import autocast_is_on
from slipstream.core.shapes import Float
from slipstream.kernels.membership import Membership
from slipstream.models.steps import SteppedLayer, SteppedModel, Stream
from slipstream.models.totals import Total

Memory = Literal["normal", "lean"]
"""What a training step keeps for its backward pass: all that it needs, or one tensor a layer."""
CHUNK = {"cpu": 1 << 15}
CHUNK_ELSEWHERE = 1 << 19
"""Points of a chunk, which is all that a step on it holds besides what is kept: in bf16 about four
gigabytes for a model of width 256 on a GPU. Smaller ones wait for the host: a training step on 8.4
million points took 2.35, 1.75 and 1.69 s in chunks of 2^18, 2^19 and 2^20 points, with 79.4, 81.2
and 84.7 GB (H200, 2026-11-19). On a CPU a thread alone takes 16,384 points a tenth faster, but
where two threads share their cores with other programs, smaller chunks cost up to twice the time
(2026-11-19)."""

Tensors = tuple[Tensor | None, ...]


def chunk_size(device: torch.device) -> int:
    """The most points of a chunk; chunks of one cloud differ by one point at most."""
    return CHUNK.get(device.type, CHUNK_ELSEWHERE)


def lean_forward(
    model: SteppedModel,
    coords: Float[Tensor, "B N d"],
    features: Float[Tensor, "B N f"] | None,
    *,
    chunk: int | None = None,
    compiled: bool = False,
) -> Float[Tensor, "B N k"]:
    """The outputs of a model, with a graph that keeps one tensor a layer.

    `compiled`: whether the steps on a chunk are compiled. Hooks of modules whose `forward` is not
    called, blocks and couplings, do not run; those of modules inside run once a chunk. ValueError
    for a plug-in's coupling without steps.
    """
    take = _compiled if compiled else _same
    count = max(1, -(-coords.shape[1] // (chunk or chunk_size(coords.device))))
    with _without_cache(coords.device):
        inputs = zip(*_split(count, coords, features), strict=True)
        streams = [take(_begin)(model, *each) for each in inputs]
        for layer in model.stepped_layers():
            total = Total()
            for stream in streams:
                total.add(take(_sums)(layer, *stream))
            tokens = layer.mixed(total.sums())
            wide = tokens.double()  # the gradients of all chunks are added up in fp64
            streams = [take(_apply)(layer, tokens.dtype, wide, *stream) for stream in streams]
        return torch.cat([take(_finish)(model, *stream) for stream in streams], 1)


def check_one_way(memory: Memory, recompute: bool) -> None:
    """Raise ValueError where both lean memory and the checkpointing of layers are asked for."""
    if memory == "lean" and recompute:
        raise ValueError(
            "recompute must be false where memory is lean, which computes again all that it can"
            " without, got true"
        )


def _begin(model: SteppedModel, coords: Tensor, features: Tensor | None) -> Tensors:
    return _again(lambda *given: _tensors(model.begin(*given)), coords, features)


def _sums(layer: SteppedLayer, *stream: Tensor | None) -> Any:
    return _again(lambda *given: layer.sums(_stream(*given))[1], *stream)


def _apply(
    layer: SteppedLayer, dtype: torch.dtype, tokens: Tensor, *stream: Tensor | None
) -> Tensors:
    def apply(tokens: Tensor, *given: Tensor | None) -> Tensors:
        return _tensors(layer.apply_tokens(_stream(*given), tokens.to(dtype)))

    return _again(apply, tokens, *stream)


def _finish(model: SteppedModel, *stream: Tensor | None) -> Tensor:
    return _again(lambda *given: model.finish(_stream(*given)), *stream)


def _again(function: Callable[..., Any], *given: Tensor | None) -> Any:
    """Call the function, and again in the backward pass; in between only `given` is kept."""
    # No state of random numbers is kept: no step draws any.
    return checkpoint(function, *given, use_reentrant=False, preserve_rng_state=False)


def _tensors(stream: Stream) -> Tensors:
    """All that a stream is, with its update added, and `_stream` of them is the stream again."""
    x = stream.x if stream.update is None else stream.x + stream.update
    handed = stream.membership
    if handed is None:
        return (x,)
    if not isinstance(handed, Membership) or handed.over != "slots":
        raise ValueError(
            "memory must be 'normal' for a model whose layers hand on a membership that is not one"
            f" over the slots, got {type(handed).__name__}"
        )
    slots = (handed.slot_weight, handed.slot_bias, handed.temperature)
    return x, handed.query, handed.statistics, *slots


def _stream(*tensors: Tensor | None) -> Stream:
    padded = [*tensors, *[None] * (6 - len(tensors))]
    x, query, statistics, slot_weight, slot_bias, temperature = padded
    assert x is not None
    if query is None:
        return Stream(x)
    assert slot_weight is not None and temperature is not None
    membership = Membership(query, slot_weight, slot_bias, temperature, statistics=statistics)
    return Stream(x, None, membership)


def _split(count: int, *tensors: Tensor | None) -> list[tuple[Tensor | None, ...]]:
    """Each in chunks of its points."""
    return [(None,) * count if t is None else t.tensor_split(count, 1) for t in tensors]


def _without_cache(device: torch.device) -> Any:
    """Autocast as it is, but casting a weight anew for every chunk.

    With one cast for all chunks their gradients would be added up in bf16.
    """
    if not autocast_is_on(device):
        return nullcontext()
    return torch.autocast(device.type, cache_enabled=False)


def _same(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


@cache
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function)
