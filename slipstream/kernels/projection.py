"""Device code of `project_norm`: a projection, the residual sum and its LayerNorm in one pass.

A program takes a block of whole rows, so that the norm's mean and variance are sums over its own
registers. C and K are powers of two.
"""

from __future__ import annotations

import triton
import triton.language as tl

from slipstream.kernels.gelu import gelu, gelu_and_slope
from slipstream.kernels.primitives import product
from slipstream.kernels.residual_norm import mean


@triton.jit
def halves(b_x, BN: tl.constexpr, C: tl.constexpr):
    """The left and the right half of the columns: half as many registers are live at a time."""
    return tl.split(tl.permute(tl.reshape(b_x, (BN, 2, C // 2)), (0, 2, 1)))


@triton.jit
def activated(
    inner, inner_bias, o_n, o_k, rows,
    K: tl.constexpr, GELU: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """[BN, BK] of what is projected: `inner`, or the GELU ("erf" or "tanh") of it and a bias."""
    m_block = (o_n < rows)[:, None]
    b_x = tl.load(inner + o_n.to(tl.int64)[:, None] * K + o_k[None, :], mask=m_block, other=0.0)
    if GELU != "none":
        b_bias = tl.load(inner_bias + o_k).to(tl.float32)
        b_active = gelu(b_x.to(tl.float32) + b_bias[None, :], GELU == "tanh", EXACT)
        b_x = b_active.to(inner.dtype.element_ty)
    return b_x


@triton.jit(do_not_specialize=("rows",))
def project_norm_forward(
    inner, inner_bias, projection, stream, update_bias, weight, bias,
    summed, normed, statistics, rows, epsilon,
    K: tl.constexpr, C: tl.constexpr, BK: tl.constexpr, BN: tl.constexpr,
    GELU: tl.constexpr, EXACT: tl.constexpr, HOW: tl.constexpr,
):  # fmt: skip
    """summed = stream + activated(inner) projection^T + update_bias, normed = its LayerNorm."""
    o_n = tl.program_id(0) * BN + tl.arange(0, BN)
    o_c, o_k = tl.arange(0, C), tl.arange(0, BK)
    p_projection = projection + o_c[None, :] * K + o_k[:, None]
    # [BN, C]
    b_update = tl.zeros([BN, C], tl.float32)
    for k in range(0, K, BK):
        b_x = activated(inner, inner_bias, o_n, k + o_k, rows, K, GELU, EXACT)
        b_update += product(b_x, tl.load(p_projection + k), HOW)
    # [BN, C / 2] each
    b_left, b_right = halves(b_update, BN, C)
    o_left = tl.arange(0, C // 2)
    o_right = o_left + C // 2
    b_left = add_to_stream(stream, b_left, update_bias, summed, o_n, o_left, rows, C)
    b_right = add_to_stream(stream, b_right, update_bias, summed, o_n, o_right, rows, C)
    b_mean = (mean(b_left, C // 2) + mean(b_right, C // 2)) * 0.5
    b_left, b_right = b_left - b_mean[:, None], b_right - b_mean[:, None]
    b_variance = (mean(b_left * b_left, C // 2) + mean(b_right * b_right, C // 2)) * 0.5
    b_inverse = tl.div_rn(tl.full([BN], 1.0, tl.float32), tl.sqrt_rn(b_variance + epsilon))
    store_normed(normed, b_left * b_inverse[:, None], weight, bias, o_n, o_left, rows, C)
    store_normed(normed, b_right * b_inverse[:, None], weight, bias, o_n, o_right, rows, C)
    tl.store(statistics + o_n, b_mean, mask=o_n < rows)
    tl.store(statistics + rows + o_n, b_inverse, mask=o_n < rows)


@triton.jit
def add_to_stream(stream, b_update, update_bias, summed, o_n, o_c, rows, C: tl.constexpr):
    """The columns o_c of the sum, which it stores, as they were rounded."""
    o_block = o_n.to(tl.int64)[:, None] * C + o_c[None, :]
    m_block = (o_n < rows)[:, None]
    b_bias = tl.load(update_bias + o_c).to(tl.float32)
    b_x = tl.load(stream + o_block, mask=m_block, other=0.0).to(tl.float32)
    b_x = (b_x + (b_update + b_bias[None, :])).to(summed.dtype.element_ty)
    tl.store(summed + o_block, b_x, mask=m_block)
    return b_x.to(tl.float32)


@triton.jit
def store_normed(normed, b_unit, weight, bias, o_n, o_c, rows, C: tl.constexpr):
    b_weight = tl.load(weight + o_c).to(tl.float32)
    b_bias = tl.load(bias + o_c).to(tl.float32)
    b_out = b_unit * b_weight[None, :] + b_bias[None, :]
    p_block = normed + o_n.to(tl.int64)[:, None] * C + o_c[None, :]
    tl.store(p_block, b_out.to(normed.dtype.element_ty), mask=(o_n < rows)[:, None])


@triton.jit(do_not_specialize=("rows",))
def activation_backward(
    update_gradient, projection, inner, inner_bias, inner_gradient, active, partial, rows,
    K: tl.constexpr, C: tl.constexpr, BK: tl.constexpr, BC: tl.constexpr, BN: tl.constexpr,
    GELU: tl.constexpr, EXACT: tl.constexpr, HOW: tl.constexpr,
):  # fmt: skip
    """inner_gradient = (update_gradient projection) gelu'(inner + inner_bias), and active = gelu.

    partial[block of rows] = gradient of the bias (K). Neighbouring programs take the same rows.
    """
    i_k, i_n = tl.program_id(0) % (K // BK), tl.program_id(0) // (K // BK)
    o_n = i_n * BN + tl.arange(0, BN)
    o_k, o_c = i_k * BK + tl.arange(0, BK), tl.arange(0, BC)
    m_block = (o_n < rows)[:, None]
    # [BN, BK]
    b_gradient = tl.zeros([BN, BK], tl.float32)
    p_gradient = update_gradient + o_n.to(tl.int64)[:, None] * C + o_c[None, :]
    p_projection = projection + o_c[:, None] * K + o_k[None, :]
    for c in range(0, C, BC):
        b_update = tl.load(p_gradient + c, mask=m_block, other=0.0)
        b_gradient += product(b_update, tl.load(p_projection + c * K), HOW)
    o_block = o_n.to(tl.int64)[:, None] * K + o_k[None, :]
    b_bias = tl.load(inner_bias + o_k).to(tl.float32)
    b_x = tl.load(inner + o_block, mask=m_block, other=0.0).to(tl.float32) + b_bias[None, :]
    b_active, b_slope = gelu_and_slope(b_x, GELU == "tanh", EXACT)
    tl.store(active + o_block, b_active.to(active.dtype.element_ty), mask=m_block)
    b_gradient *= b_slope
    tl.store(inner_gradient + o_block, b_gradient.to(inner_gradient.dtype.element_ty), mask=m_block)
    tl.store(partial + i_n * K + o_k, tl.sum(b_gradient, 0))
