"""Residual and LayerNorm in one kernel: x + update, and its norm in the dtype the next layer reads.

In eager mode under autocast the sum, the norm in fp32 and a cast for every layer that reads it are
separate passes over the stream, which together cost more than slice and deslice. The bias of the
layer that made the update may be added here, too: added in that layer it would cost its product a
seventh of its time, and its gradient a pass over the points (H200, 2026-11-19). Parameter gradients
are summed as in the other kernels: programs write parts to rows of an fp32 buffer, added up in a
fixed order.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from slipstream.core import runtime
from slipstream.kernels.operands import device_guard
from slipstream.kernels.operator import operator
from slipstream.kernels.residual_norm import norm_backward, norm_forward

WIDEST = 2048
_ELEMENTS, _WARPS, _PER_SM = 1024, 2, 8
"""Numbers of the stream that a program takes at a time, its warps, programs per multiprocessor."""


def _outputs(
    stream: Tensor, update: Tensor | None, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    summed = stream.new_empty(0 if update is None else stream.shape)
    normed = stream.new_empty(stream.shape, dtype=dtype)
    return summed, normed, stream.new_empty(2, *stream.shape[:-1], dtype=torch.float32)


def _add_norm_shapes(stream, update, update_bias, weight, bias, epsilon, dtype):  # type: ignore[no-untyped-def]
    return _outputs(stream, update, dtype)


@operator("slipstream::add_norm", _add_norm_shapes)
def add_norm(
    stream: Tensor,
    update: Tensor | None,
    update_bias: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    epsilon: float,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """stream + update + update_bias (empty without an update), its norm in `dtype`, and statistics.

    The statistics are the mean and the inverse standard deviation of each row, for the backward.
    """
    summed, normed, statistics = _outputs(stream, update, dtype)
    _launch_forward(
        stream.contiguous(), update, update_bias, weight, bias, epsilon, summed, normed, statistics
    )
    return summed, normed, statistics


def add_norm_(
    stream: Tensor,
    update: Tensor,
    update_bias: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    epsilon: float,
    dtype: torch.dtype,
) -> Tensor:
    """`add_norm` that writes the sum over the stream, which must be contiguous; no gradients."""
    _, normed, statistics = _outputs(stream, None, dtype)
    _launch_forward(stream, update, update_bias, weight, bias, epsilon, stream, normed, statistics)
    return normed


def _launch_forward(
    stream: Tensor,
    update: Tensor | None,
    update_bias: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    epsilon: float,
    summed: Tensor,
    normed: Tensor,
    statistics: Tensor,
) -> None:
    width = stream.shape[-1]
    rows, tile = stream.numel() // width, _tile(width)
    if not rows:
        return
    added = stream if update is None else update.contiguous()
    added_bias = bias if update_bias is None else update_bias
    with device_guard(stream):
        norm_forward[(-(-rows // tile["BN"]),)](
            stream, added, added_bias.contiguous(), weight.contiguous(), bias.contiguous(),
            summed, normed, statistics, rows, epsilon,
            C=width, HAS_UPDATE=update is not None, HAS_UPDATE_BIAS=update_bias is not None,
            num_warps=_WARPS, **tile,
        )  # fmt: skip


def _add_norm_backward_shapes(  # type: ignore[no-untyped-def]
    normed_gradient, summed_gradient, summed, statistics, weight, bias, update_bias, update_dtype
):
    gradients = _stream_gradients(summed, update_dtype)
    of_update_bias = weight.new_empty(0) if update_bias is None else torch.empty_like(update_bias)
    return *gradients, torch.empty_like(weight), torch.empty_like(bias), of_update_bias


@operator("slipstream::add_norm_backward", _add_norm_backward_shapes)
def add_norm_backward(
    normed_gradient: Tensor,
    summed_gradient: Tensor | None,
    summed: Tensor,
    statistics: Tensor,
    weight: Tensor,
    bias: Tensor,
    update_bias: Tensor | None,
    update_dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of stream, update, weight, bias and the update's bias (empty without one).

    The update's is empty where its dtype is the stream's: the two gradients are then the same.
    """
    summed, normed_gradient = summed.contiguous(), normed_gradient.contiguous()
    summed_gradient = None if summed_gradient is None else summed_gradient.contiguous()
    of_stream, of_update = _stream_gradients(summed, update_dtype)
    width = summed.shape[-1]
    rows, tile = summed.numel() // width, _tile(width)
    parts = min(_PER_SM * runtime.multiprocessors(summed.device), -(-rows // tile["BN"]))
    partial = statistics.new_empty(parts, 2 if update_bias is None else 3, width)
    none = weight.new_empty(0)
    if not rows:
        of_update_bias = none if update_bias is None else torch.zeros_like(update_bias)
        zeros = torch.zeros_like(weight), torch.zeros_like(bias)
        return of_stream, of_update, *zeros, of_update_bias
    with device_guard(summed):
        norm_backward[(parts,)](
            normed_gradient, normed_gradient if summed_gradient is None else summed_gradient,
            summed, statistics, weight.contiguous(), of_stream, of_update, partial, rows, parts,
            C=width,
            HAS_SUMMED_GRADIENT=summed_gradient is not None,
            HAS_UPDATE_GRADIENT=of_update.numel() > 0, HAS_UPDATE_BIAS=update_bias is not None,
            num_warps=_WARPS, **tile,
        )  # fmt: skip
    total = partial.sum(0)
    of_weight, of_bias = total[0].to(weight.dtype), total[1].to(bias.dtype)
    of_update_bias = none if update_bias is None else total[2].to(update_bias.dtype)
    return of_stream, of_update, of_weight, of_bias, of_update_bias


def _stream_gradients(summed: Tensor, update_dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    same = update_dtype == summed.dtype
    of_update = summed.new_empty(0 if same else summed.shape, dtype=update_dtype)
    return summed.new_empty(summed.shape), of_update


@cache
def _tile(width: int) -> dict[str, int]:
    padded = 1 << (width - 1).bit_length()
    return {"BC": padded, "BN": max(1, _ELEMENTS // padded)}


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    stream, update, update_bias, weight, bias, _, _ = inputs
    summed, _, statistics = output
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(statistics)
    kept = stream if update is None else summed
    ctx.save_for_backward(kept, statistics, weight, bias, update_bias)
    ctx.update_dtype = None if update is None else update.dtype


def _gradients(
    ctx: Any, of_summed: Tensor | None, of_normed: Tensor | None, *_: None
) -> tuple[Tensor | None, ...]:
    summed, statistics, weight, bias, update_bias = ctx.saved_tensors
    has_update = ctx.update_dtype is not None
    if of_normed is None:  # only the sum was used further on: its gradient passes through
        of_update, of_update_bias = None, None
        if has_update and of_summed is not None:
            of_update = of_summed.to(ctx.update_dtype)
            if update_bias is not None:
                of_update_bias = of_summed.flatten(0, -2).sum(0, dtype=torch.float32)
                of_update_bias = of_update_bias.to(update_bias.dtype)
        of_stream = of_summed if has_update else None
        return of_stream, of_update, of_update_bias, None, None, None, None
    of_stream, of_update, of_weight, of_bias, of_update_bias = add_norm_backward(
        of_normed, of_summed if has_update else None, summed, statistics, weight, bias, update_bias,
        ctx.update_dtype or summed.dtype,
    )  # fmt: skip
    if not has_update:
        return of_stream, None, None, of_weight, of_bias, None, None
    if ctx.update_dtype == summed.dtype:
        of_update = of_stream
    of_added = None if update_bias is None else of_update_bias
    return of_stream, of_update, of_added, of_weight, of_bias, None, None


add_norm.set_gradients(_save, _gradients)
