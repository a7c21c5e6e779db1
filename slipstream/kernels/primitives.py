"""Small device functions that both kernel families are made of.

Names in kernels: `i_` index, `o_` offsets, `p_` pointer, `b_` block in registers, `m_` mask. Shapes
stand above loads.
"""

from __future__ import annotations

import triton
import triton.language as tl

COUNTS = ("points", "heads", "slots", "parts")
"""Arguments that a kernel is not compiled anew for, whatever they are multiples of."""
LOG_2 = tl.constexpr(0.6931471805599453)
FAR = tl.constexpr(1e30)
"""The largest logit of a point that is not there: its weights are zero, and finite times zero."""
TINY = tl.constexpr(1e-37)
"""Above zero, where a logarithm is taken."""
NOWHERE = tl.constexpr(-1e30)
"""The logit of a slot that is not there, and where the search for the largest begins."""
MASKED = tl.constexpr(-1e25)
"""The least bias of a slot: -inf, or what overflows to it, would leave zero times infinity in
gradients, and a difference of two of them where a block has no other slots."""
INTERPRETED = tl.constexpr(bool(triton.knobs.runtime.interpret))
"""The interpreter cannot multiply bf16 or TF32, and cuts off where it should round: operands are
rounded by arithmetic there, and multiplied in fp32."""


@triton.jit
def far(i_b, stride_b, i_h, stride_h):
    """The offset of a head of a sample, which may not fit into 32 bits."""
    return i_b * stride_b + i_h.to(tl.int64) * stride_h


@triton.jit
def product(b_x, b_y, HOW: tl.constexpr):
    """b_x @ b_y, summed in fp32. HOW: bf16x6, tf32x3, or bf16 or tf32 to round both operands."""
    if INTERPRETED:
        b_x, b_y = b_x.to(tl.float32), b_y.to(tl.float32)
        if HOW == "bf16":
            b_x, b_y = rounded_to_bf16(b_x), rounded_to_bf16(b_y)
        elif HOW == "tf32":
            b_x, b_y = rounded_to_tf32(b_x), rounded_to_tf32(b_y)
        b_out = tl.dot(b_x, b_y, input_precision="ieee")
    elif HOW == "bf16":
        b_out = tl.dot(b_x.to(tl.bfloat16), b_y.to(tl.bfloat16))
    elif HOW == "tf32":
        b_out = tl.dot(rounded_to_tf32(b_x), rounded_to_tf32(b_y), input_precision=HOW)
    else:
        b_out = tl.dot(b_x.to(tl.float32), b_y.to(tl.float32), input_precision=HOW)
    return b_out


@triton.jit
def rounded_to_bf16(b_x):
    """As fp32 again."""
    if INTERPRETED:
        b_high = b_x * 65537.0  # Dekker: what is left of x is its upper 8 bits, rounded
        b_out = b_high - (b_high - b_x)
    else:
        b_out = b_x.to(tl.bfloat16).to(tl.float32)
    return b_out


@triton.jit
def rounded_to_tf32(b_x):
    """As fp32; half away from zero. Half precision fits in as it is.

    A tensor core cuts the lower 13 bits off instead: all operands a little too small, which a sum
    over points does not average out (errors 2.5 to 5 times as large).
    """
    if b_x.dtype == tl.float32:
        b_bits = b_x.to(tl.int32, bitcast=True)
        b_out = ((b_bits + 0x1000) & -0x2000).to(tl.float32, bitcast=True)
    else:
        b_out = b_x.to(tl.float32)
    return b_out


@triton.jit
def reciprocal(b_x):
    """Correctly rounded: an approximate one makes the temperature's gradient ten times worse."""
    return tl.div_rn(tl.full(b_x.shape, 1.0, tl.float32), b_x)


@triton.jit
def load_rows(p_base, o_rows, stride, COLUMNS: tl.constexpr, WIDTH: tl.constexpr, rows):
    """Rows `o_rows` of a matrix whose columns are contiguous: [len(o_rows), WIDTH], 0 outside.

    WIDTH is COLUMNS or the power of two above it.
    """
    o_columns = tl.arange(0, WIDTH)
    p_block = p_base + o_rows.to(tl.int64)[:, None] * stride + o_columns[None, :]
    m_block = (o_rows < rows)[:, None]
    if WIDTH != COLUMNS:
        m_block = m_block & (o_columns < COLUMNS)[None, :]
    return tl.load(p_block, mask=m_block, other=0.0)


@triton.jit
def store_rows(p_base, b_block, o_rows, stride, COLUMNS: tl.constexpr, WIDTH: tl.constexpr, rows):
    """The counterpart of `load_rows`; casts to the pointer's type."""
    o_columns = tl.arange(0, WIDTH)
    p_block = p_base + o_rows.to(tl.int64)[:, None] * stride + o_columns[None, :]
    m_block = (o_rows < rows)[:, None]
    if WIDTH != COLUMNS:
        m_block = m_block & (o_columns < COLUMNS)[None, :]
    tl.store(p_block, b_block.to(p_base.dtype.element_ty), mask=m_block)


@triton.jit
def logit_scale(temperature):
    """What turns a raw logit into units of log 2: exponentials are powers of two here."""
    return tl.div_rn(tl.full([], 1.4426950408889634, tl.float32), temperature.to(tl.float32))


@triton.jit
def load_slot_bias(p_bias, o_slots, slots, scale, HAS_BIAS: tl.constexpr, OUTSIDE: tl.constexpr):
    """[len(o_slots)], times `scale`; zeros where there is no bias, OUTSIDE beyond the last slot."""
    m_slots = o_slots < slots
    if HAS_BIAS:
        b_bias = tl.load(p_bias + o_slots, mask=m_slots, other=0.0).to(tl.float32)
        b_bias = tl.maximum(b_bias, MASKED) * scale
    else:
        b_bias = tl.zeros(o_slots.shape, tl.float32)
    return tl.where(m_slots, b_bias, OUTSIDE)


@triton.jit
def slot_logits(b_query, b_slots, b_bias, scale, HOW: tl.constexpr):
    """[BN, D] x [BG, D] -> [BN, BG], over the temperature, in units of log 2; b_bias has them."""
    return product(b_query, tl.trans(b_slots), HOW) * scale + b_bias[None, :]


@triton.jit
def softmax_rows(b_logits):
    """Softmax over the columns of a block that holds them all."""
    b_exp = tl.exp2(b_logits - tl.max(b_logits, 1)[:, None])
    return b_exp * reciprocal(tl.sum(b_exp, 1))[:, None]


@triton.jit
def no_column_sums(COLUMNS: tl.constexpr, HOW: tl.constexpr):
    """Where `add_column_sums` starts."""
    if HOW == "bf16":
        b_sums = tl.zeros([COLUMNS, 16], tl.float32)
    else:
        b_sums = tl.zeros([COLUMNS], tl.float32)
    return b_sums


@triton.jit
def add_column_sums(b_sums, b_x, m_rows, HOW: tl.constexpr):
    """Add the sums of b_x, [BN, BG], over the rows of the mask.

    Where operands are rounded to bf16 anyway they come from a product with ones, 16 times the same:
    a plain sum over rows crosses lanes and warps, and costs more.
    """
    if HOW == "bf16":
        b_ones = tl.broadcast_to(m_rows.to(tl.float32)[:, None], [b_x.shape[0], 16])
        b_sums += product(tl.trans(b_x), b_ones, HOW)
    else:
        b_sums += tl.sum(tl.where(m_rows[:, None], b_x, 0.0), 0)
    return b_sums


@triton.jit
def column_sums(b_sums, HOW: tl.constexpr):
    """What `add_column_sums` has gathered, [BG]."""
    if HOW == "bf16":
        b_sums = tl.max(b_sums, 1)
    return b_sums
