"""Residual and LayerNorm in one kernel: x + update, and its norm in the dtype the next layer reads.

In eager mode under autocast the sum, the norm in fp32 and a cast for every reader are passes of
their own over the stream, and cost more than slice and deslice together. Under `torch.compile` the
compiler fuses them by itself, so this is for eager alone. Parameter gradients are summed like those
of the other kernels: parts in rows of an fp32 buffer, added up in a fixed order.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from slipstream.kernels.launch import device_guard, multiprocessors

WIDEST = 2048
_ELEMENTS, _WARPS, _PER_SM = 2048, 4, 8
"""Of a program: numbers of the stream at a time, warps, and how many run on a multiprocessor."""


@triton.jit
def norm_forward(
    stream, update, weight, bias, summed, normed, means, inverse_deviations,
    rows, epsilon,
    C: tl.constexpr, BC: tl.constexpr, BN: tl.constexpr, HAS_UPDATE: tl.constexpr,
):  # fmt: skip
    o_n = tl.program_id(0) * BN + tl.arange(0, BN)
    o_c = tl.arange(0, BC)
    m_c = o_c < C
    m_block = (o_n < rows)[:, None] & m_c[None, :]
    o_block = o_n.to(tl.int64)[:, None] * C + o_c[None, :]
    # [BN, BC]
    b_x = tl.load(stream + o_block, mask=m_block, other=0.0).to(tl.float32)
    if HAS_UPDATE:
        b_x += tl.load(update + o_block, mask=m_block, other=0.0).to(tl.float32)
        b_x = b_x.to(summed.dtype.element_ty)
        tl.store(summed + o_block, b_x, mask=m_block)
        b_x = b_x.to(tl.float32)
    b_mean = tl.sum(b_x, 1) / C
    b_centred = tl.where(m_c[None, :], b_x - b_mean[:, None], 0.0)
    b_variance = tl.sum(b_centred * b_centred, 1) / C
    b_inverse = tl.div_rn(tl.full([BN], 1.0, tl.float32), tl.sqrt_rn(b_variance + epsilon))
    # [BC]
    b_weight = tl.load(weight + o_c, mask=m_c, other=0.0).to(tl.float32)
    b_bias = tl.load(bias + o_c, mask=m_c, other=0.0).to(tl.float32)
    b_out = b_centred * b_inverse[:, None] * b_weight[None, :] + b_bias[None, :]
    tl.store(normed + o_block, b_out.to(normed.dtype.element_ty), mask=m_block)
    tl.store(means + o_n, b_mean, mask=o_n < rows)
    tl.store(inverse_deviations + o_n, b_inverse, mask=o_n < rows)


@triton.jit
def norm_backward(
    normed_gradient, summed_gradient, summed, means, inverse_deviations, weight,
    stream_gradient, update_gradient, partial,
    rows, parts,
    C: tl.constexpr, BC: tl.constexpr, BN: tl.constexpr,
    HAS_SUMMED_GRADIENT: tl.constexpr, HAS_UPDATE_GRADIENT: tl.constexpr,
):  # fmt: skip
    """partial[part] = gradients of weight (C) | bias (C)."""
    i_part = tl.program_id(0)
    o_c = tl.arange(0, BC)
    m_c = o_c < C
    b_weight = tl.load(weight + o_c, mask=m_c, other=0.0).to(tl.float32)
    b_dweight = tl.zeros([BN, BC], tl.float32)
    b_dbias = tl.zeros([BN, BC], tl.float32)
    for start in range(i_part * BN, rows, parts * BN):
        o_n = start + tl.arange(0, BN)
        m_n = o_n < rows
        m_block = m_n[:, None] & m_c[None, :]
        o_block = o_n.to(tl.int64)[:, None] * C + o_c[None, :]
        # [BN, BC], [BN]
        b_dy = tl.load(normed_gradient + o_block, mask=m_block, other=0.0).to(tl.float32)
        b_x = tl.load(summed + o_block, mask=m_block, other=0.0).to(tl.float32)
        b_mean = tl.load(means + o_n, mask=m_n, other=0.0)
        b_inverse = tl.load(inverse_deviations + o_n, mask=m_n, other=0.0)
        b_unit = tl.where(m_c[None, :], (b_x - b_mean[:, None]) * b_inverse[:, None], 0.0)
        b_dweight += b_dy * b_unit
        b_dbias += b_dy
        b_dunit = b_dy * b_weight[None, :]
        b_along = tl.sum(b_dunit * b_unit, 1) / C
        b_shift = tl.sum(b_dunit, 1) / C
        b_dx = (b_dunit - b_shift[:, None] - b_unit * b_along[:, None]) * b_inverse[:, None]
        if HAS_SUMMED_GRADIENT:
            b_dx += tl.load(summed_gradient + o_block, mask=m_block, other=0.0).to(tl.float32)
        tl.store(stream_gradient + o_block, b_dx.to(stream_gradient.dtype.element_ty), mask=m_block)
        if HAS_UPDATE_GRADIENT:
            b_dx = b_dx.to(update_gradient.dtype.element_ty)
            tl.store(update_gradient + o_block, b_dx, mask=m_block)
    p_part = partial + i_part * 2 * C
    tl.store(p_part + o_c, tl.sum(b_dweight, 0), mask=m_c)
    tl.store(p_part + C + o_c, tl.sum(b_dbias, 0), mask=m_c)


@torch.library.custom_op("slipstream::add_norm", mutates_args=())
def add_norm(
    stream: Tensor,
    update: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    epsilon: float,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """stream + update (empty without one), its norm in `dtype`, means, inverse deviations."""
    stream = stream.contiguous()
    update = None if update is None else update.contiguous()
    summed, normed, means, inverse = _outputs(stream, update, dtype)
    rows, width = means.numel(), stream.shape[-1]
    tile = _tile(width)
    with device_guard(stream):
        norm_forward[(triton.cdiv(rows, tile["BN"]),)](
            stream, stream if update is None else update, weight, bias, summed, normed, means,
            inverse, rows, epsilon, C=width, HAS_UPDATE=update is not None, num_warps=_WARPS,
            **tile,
        )  # fmt: skip
    return summed, normed, means, inverse


@add_norm.register_fake
def _(stream, update, weight, bias, epsilon, dtype):  # type: ignore[no-untyped-def]
    return _outputs(stream, update, dtype)


def _outputs(
    stream: Tensor, update: Tensor | None, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    means = stream.new_empty(stream.shape[:-1], dtype=torch.float32)
    summed = stream.new_empty(0 if update is None else stream.shape)
    return summed, stream.new_empty(stream.shape, dtype=dtype), means, torch.empty_like(means)


@torch.library.custom_op("slipstream::add_norm_backward", mutates_args=())
def add_norm_backward(
    normed_gradient: Tensor,
    summed_gradient: Tensor | None,
    summed: Tensor,
    means: Tensor,
    inverse: Tensor,
    weight: Tensor,
    bias: Tensor,
    update_dtype: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of stream, update (empty where it is the same), weight and bias."""
    summed, normed_gradient = summed.contiguous(), normed_gradient.contiguous()
    summed_gradient = None if summed_gradient is None else summed_gradient.contiguous()
    of_stream, of_update = _stream_gradients(summed, update_dtype)
    rows, width = means.numel(), summed.shape[-1]
    tile = _tile(width)
    parts = min(_PER_SM * multiprocessors(summed.device), triton.cdiv(rows, tile["BN"]))
    partial = means.new_empty(parts, 2, width)
    with device_guard(summed):
        norm_backward[(parts,)](
            normed_gradient, normed_gradient if summed_gradient is None else summed_gradient,
            summed, means, inverse, weight, of_stream, of_update, partial, rows, parts, C=width,
            HAS_SUMMED_GRADIENT=summed_gradient is not None,
            HAS_UPDATE_GRADIENT=of_update.numel() > 0, num_warps=_WARPS, **tile,
        )  # fmt: skip
    of_weight, of_bias = partial.sum(0).unbind(0)
    return (
        of_stream,
        of_update,
        of_weight.to(weight.dtype, copy=True),
        of_bias.to(bias.dtype, copy=True),
    )


@add_norm_backward.register_fake
def _(normed_gradient, summed_gradient, summed, means, inverse, weight, bias, update_dtype):  # type: ignore[no-untyped-def]
    gradients = _stream_gradients(summed, update_dtype)
    return *gradients, torch.empty_like(weight), torch.empty_like(bias)


def _stream_gradients(summed: Tensor, update_dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    same = update_dtype == summed.dtype
    of_update = summed.new_empty(0 if same else summed.shape, dtype=update_dtype)
    return summed.new_empty(summed.shape), of_update


def _tile(width: int) -> dict[str, int]:
    padded = triton.next_power_of_2(width)
    return {"BC": padded, "BN": max(1, _ELEMENTS // padded)}


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    stream, update, weight, bias, _, _ = inputs
    summed, _, means, inverse = output
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(means, inverse)
    ctx.save_for_backward(stream if update is None else summed, means, inverse, weight, bias)
    ctx.update_dtype = None if update is None else update.dtype


def _gradients(
    ctx: Any, of_summed: Tensor | None, of_normed: Tensor | None, *_: None
) -> tuple[Tensor | None, ...]:
    summed, means, inverse, weight, bias = ctx.saved_tensors
    has_update = ctx.update_dtype is not None
    if of_normed is None:
        of_update = None
        if has_update and of_summed is not None:
            of_update = of_summed.to(ctx.update_dtype)
        return of_summed if has_update else None, of_update, None, None, None, None
    of_stream, of_update, of_weight, of_bias = add_norm_backward(
        of_normed, of_summed if has_update else None, summed, means, inverse, weight, bias,
        ctx.update_dtype or summed.dtype,
    )  # fmt: skip
    if not has_update:
        return of_stream, None, of_weight, of_bias, None, None
    same = ctx.update_dtype == summed.dtype
    return of_stream, of_stream if same else of_update, of_weight, of_bias, None, None


add_norm.register_autograd(_gradients, setup_context=_save)
