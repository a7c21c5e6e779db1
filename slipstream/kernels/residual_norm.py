"""Device code of `norm`: the residual sum and its LayerNorm, a block of whole rows at a time."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def mean(b_x, COLUMNS: tl.constexpr):
    """Of every row; padding is zero. A plain division would be off by two ulp."""
    b_sum = tl.sum(b_x, 1)
    return tl.div_rn(b_sum, tl.full(b_sum.shape, COLUMNS, tl.float32))


@triton.jit(do_not_specialize=("rows", "parts"))
def norm_forward(
    stream, update, update_bias, weight, bias, summed, normed, statistics,
    rows, epsilon,
    C: tl.constexpr, BC: tl.constexpr, BN: tl.constexpr,
    HAS_UPDATE: tl.constexpr, HAS_UPDATE_BIAS: tl.constexpr,
):  # fmt: skip
    o_n = tl.program_id(0) * BN + tl.arange(0, BN)
    o_c = tl.arange(0, BC)
    m_c = o_c < C
    m_block = (o_n < rows)[:, None] & m_c[None, :]
    o_block = o_n.to(tl.int64)[:, None] * C + o_c[None, :]
    # [BN, BC]
    b_x = tl.load(stream + o_block, mask=m_block, other=0.0).to(tl.float32)
    if HAS_UPDATE:
        b_update = tl.load(update + o_block, mask=m_block, other=0.0).to(tl.float32)
        if HAS_UPDATE_BIAS:
            b_update += tl.load(update_bias + o_c, mask=m_c, other=0.0).to(tl.float32)[None, :]
        b_x += b_update
        b_x = b_x.to(summed.dtype.element_ty)
        tl.store(summed + o_block, b_x, mask=m_block)
        b_x = b_x.to(tl.float32)
    b_mean = mean(b_x, C)
    b_centred = tl.where(m_c[None, :], b_x - b_mean[:, None], 0.0)
    b_variance = mean(b_centred * b_centred, C)
    b_inverse = tl.div_rn(tl.full([BN], 1.0, tl.float32), tl.sqrt_rn(b_variance + epsilon))
    # [BC]
    b_weight = tl.load(weight + o_c, mask=m_c, other=0.0).to(tl.float32)
    b_bias = tl.load(bias + o_c, mask=m_c, other=0.0).to(tl.float32)
    b_out = b_centred * b_inverse[:, None] * b_weight[None, :] + b_bias[None, :]
    tl.store(normed + o_block, b_out.to(normed.dtype.element_ty), mask=m_block)
    tl.store(statistics + o_n, b_mean, mask=o_n < rows)
    tl.store(statistics + rows + o_n, b_inverse, mask=o_n < rows)


@triton.jit(do_not_specialize=("rows", "parts"))
def norm_backward(
    normed_gradient, summed_gradient, summed, statistics, weight,
    stream_gradient, update_gradient, partial,
    rows, parts,
    C: tl.constexpr, BC: tl.constexpr, BN: tl.constexpr,
    HAS_SUMMED_GRADIENT: tl.constexpr, HAS_UPDATE_GRADIENT: tl.constexpr,
    HAS_UPDATE_BIAS: tl.constexpr,
):  # fmt: skip
    """partial[part] = gradients of weight (C) | bias (C) | the update's bias (C)."""
    i_part = tl.program_id(0)
    o_c = tl.arange(0, BC)
    m_c = o_c < C
    b_weight = tl.load(weight + o_c, mask=m_c, other=0.0).to(tl.float32)
    b_dweight = tl.zeros([BN, BC], tl.float32)
    b_dbias = tl.zeros([BN, BC], tl.float32)
    if HAS_UPDATE_BIAS:
        b_dupdate = tl.zeros([BN, BC], tl.float32)
    for start in range(i_part * BN, rows, parts * BN):
        o_n = start + tl.arange(0, BN)
        m_n = o_n < rows
        m_block = m_n[:, None] & m_c[None, :]
        o_block = o_n.to(tl.int64)[:, None] * C + o_c[None, :]
        # [BN, BC], [BN]
        b_dy = tl.load(normed_gradient + o_block, mask=m_block, other=0.0).to(tl.float32)
        b_x = tl.load(summed + o_block, mask=m_block, other=0.0).to(tl.float32)
        b_mean = tl.load(statistics + o_n, mask=m_n, other=0.0)
        b_inverse = tl.load(statistics + rows + o_n, mask=m_n, other=0.0)
        b_unit = tl.where(m_c[None, :], (b_x - b_mean[:, None]) * b_inverse[:, None], 0.0)
        b_dweight += b_dy * b_unit
        b_dbias += b_dy
        b_dunit = b_dy * b_weight[None, :]
        b_along = mean(b_dunit * b_unit, C)
        b_shift = mean(b_dunit, C)
        b_dx = (b_dunit - b_shift[:, None] - b_unit * b_along[:, None]) * b_inverse[:, None]
        if HAS_SUMMED_GRADIENT:
            b_dx += tl.load(summed_gradient + o_block, mask=m_block, other=0.0).to(tl.float32)
        if HAS_UPDATE_BIAS:
            b_dupdate += tl.where(m_n[:, None], b_dx, 0.0)
        tl.store(stream_gradient + o_block, b_dx.to(stream_gradient.dtype.element_ty), mask=m_block)
        if HAS_UPDATE_GRADIENT:
            b_dx = b_dx.to(update_gradient.dtype.element_ty)
            tl.store(update_gradient + o_block, b_dx, mask=m_block)
    p_part = partial + i_part * (3 if HAS_UPDATE_BIAS else 2) * C
    tl.store(p_part + o_c, tl.sum(b_dweight, 0), mask=m_c)
    tl.store(p_part + C + o_c, tl.sum(b_dbias, 0), mask=m_c)
    if HAS_UPDATE_BIAS:
        tl.store(p_part + 2 * C + o_c, tl.sum(b_dupdate, 0), mask=m_c)
