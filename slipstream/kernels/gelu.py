"""Device code of `mlp`: GELU of a product and a bias, and its gradient, in one pass each."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def reciprocal_within_2_ulp(b_x):
    """As near as exp2 is, in a few instructions; `div_rn` rounds correctly, and takes more."""
    return tl.fdiv(tl.full(b_x.shape, 1.0, tl.float32), b_x)


@triton.jit
def normal_distribution(b_x, EXACT: tl.constexpr):
    """Phi(x), and exp(-x^2 / 2).

    Phi is exact, or off by less than 1e-7 (Abramowitz and Stegun, 7.1.26), which is a thousandth of
    the rounding of half precision and takes half of the time.
    """
    b_bell = tl.exp2(b_x * b_x * -0.7213475204444817)
    if EXACT:
        b_phi = 0.5 + 0.5 * tl.erf(b_x * 0.7071067811865476)
    else:
        b_t = reciprocal_within_2_ulp(1.0 + 0.2316418882663604 * tl.abs(b_x))
        b_sum = (0.5307027145 * b_t - 0.7265760135) * b_t + 0.7107068705
        b_tail = ((b_sum * b_t - 0.142248368) * b_t + 0.127414796) * b_t * b_bell
        b_phi = tl.where(b_x >= 0, 1.0 - b_tail, b_tail)
    return b_phi, b_bell


@triton.jit
def tanh_share(b_x):
    """(1 + tanh(u)) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3)."""
    b_u = b_x * (0.7978845608028654 + 0.0356774081363001 * b_x * b_x)
    b_power = tl.exp2(tl.minimum(b_u * -2.8853900817779268, 126.0))  # no infinity
    return reciprocal_within_2_ulp(1.0 + b_power)


@triton.jit
def gelu(b_x, TANH: tl.constexpr, EXACT: tl.constexpr):
    if TANH:
        b_share = tanh_share(b_x)
    else:
        b_share, _ = normal_distribution(b_x, EXACT)
    return b_x * b_share


@triton.jit
def gelu_and_slope(b_x, TANH: tl.constexpr, EXACT: tl.constexpr):
    if TANH:
        b_share = tanh_share(b_x)
        b_inner = 0.7978845608028654 + 0.1070322244089003 * b_x * b_x
        b_slope = b_share + 2.0 * b_x * b_share * (1.0 - b_share) * b_inner
    else:
        b_share, b_bell = normal_distribution(b_x, EXACT)
        b_slope = b_share + 0.3989422804014327 * b_x * b_bell
    return b_x * b_share, b_slope


@triton.jit(do_not_specialize=("rows", "parts"))
def gelu_forward(
    product, bias, active, rows,
    K: tl.constexpr, BK: tl.constexpr, BN: tl.constexpr,
    TANH: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """active = gelu(product + bias), which may be written over the product."""
    o_n = tl.program_id(0) * BN + tl.arange(0, BN)
    o_k = tl.arange(0, BK)
    m_k = o_k < K
    m_block = (o_n < rows)[:, None] & m_k[None, :]
    o_block = o_n.to(tl.int64)[:, None] * K + o_k[None, :]
    # [BK], [BN, BK]
    b_bias = tl.load(bias + o_k, mask=m_k, other=0.0).to(tl.float32)
    b_x = tl.load(product + o_block, mask=m_block, other=0.0).to(tl.float32) + b_bias[None, :]
    b_out = gelu(b_x, TANH, EXACT)
    tl.store(active + o_block, b_out.to(active.dtype.element_ty), mask=m_block)


@triton.jit(do_not_specialize=("rows", "parts"))
def gelu_backward(
    gradient, product, bias, active, partial, rows, parts,
    K: tl.constexpr, BK: tl.constexpr, BN: tl.constexpr,
    TANH: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """Writes the product's gradient over `gradient`, that of `active`, which it computes again.

    partial[part] = gradient of the bias (K).
    """
    i_part = tl.program_id(0)
    o_k = tl.arange(0, BK)
    m_k = o_k < K
    b_bias = tl.load(bias + o_k, mask=m_k, other=0.0).to(tl.float32)
    b_sum = tl.zeros([BN, BK], tl.float32)
    for start in range(i_part * BN, rows, parts * BN):
        o_n = start + tl.arange(0, BN)
        m_block = (o_n < rows)[:, None] & m_k[None, :]
        o_block = o_n.to(tl.int64)[:, None] * K + o_k[None, :]
        # [BN, BK]
        b_x = tl.load(product + o_block, mask=m_block, other=0.0).to(tl.float32) + b_bias[None, :]
        b_gradient = tl.load(gradient + o_block, mask=m_block, other=0.0).to(tl.float32)
        b_active, b_slope = gelu_and_slope(b_x, TANH, EXACT)
        b_gradient = b_gradient * b_slope
        b_sum += b_gradient
        tl.store(gradient + o_block, b_gradient.to(gradient.dtype.element_ty), mask=m_block)
        tl.store(active + o_block, b_active.to(active.dtype.element_ty), mask=m_block)
    tl.store(partial + i_part * K + o_k, tl.sum(b_sum, 0), mask=m_k)
