"""The G-blocked family, forward: any number of slots, head and value widths up to 256.

The slot axis is walked in blocks of BG. Weights are formed as exp(logit - m) / l from per-point
statistics (m, l), two floats a point and head; for weights normalised over the points, from one log
normaliser a slot. Logits, and with them every m, are in units of log 2: exponentials are powers of
two. Widths are padded to powers of two (BD, BV) by masks.
"""

from __future__ import annotations

import triton
import triton.language as tl

from slipstream.kernels.primitives import (
    COUNTS,
    FAR,
    NOWHERE,
    add_column_sums,
    column_sums,
    far,
    load_rows,
    load_slot_bias,
    logit_scale,
    no_column_sums,
    product,
    reciprocal,
    slot_logits,
    store_rows,
)


@triton.jit(do_not_specialize=COUNTS)
def statistics(
    query, slot_weight, slot_bias, temperature, row_max, row_sum,
    points, heads, slots,
    query_b, query_n, query_h, weight_b, weight_h, bias_b, bias_h,
    D: tl.constexpr, BD: tl.constexpr,
    HAS_BIAS: tl.constexpr, LOGITS: tl.constexpr, BN: tl.constexpr, BG: tl.constexpr,
):  # fmt: skip
    """m and l of every point and head, (B, H, N) each, in one online pass over the slots."""
    i_n, i_h, i_b = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    o_n = i_n * BN + tl.arange(0, BN)
    p_weight = slot_weight + i_b * weight_b + i_h * weight_h
    p_bias = slot_bias + i_b * bias_b + i_h * bias_h
    scale = logit_scale(tl.load(temperature + i_h))
    # [BN, BD]
    b_query = load_rows(query + far(i_b, query_b, i_h, query_h), o_n, query_n, D, BD, points)
    b_m = tl.full([BN], NOWHERE, tl.float32)
    b_l = tl.zeros([BN], tl.float32)
    for first in range(0, slots, BG):
        o_g = first + tl.arange(0, BG)
        b_slots = load_rows(p_weight, o_g, D, D, BD, slots)
        b_bias = load_slot_bias(p_bias, o_g, slots, scale, HAS_BIAS, NOWHERE)
        b_logits = slot_logits(b_query, b_slots, b_bias, scale, LOGITS)
        b_new = tl.maximum(b_m, tl.max(b_logits, 1))
        b_l = b_l * tl.exp2(b_m - b_new) + tl.sum(tl.exp2(b_logits - b_new[:, None]), 1)
        b_m = b_new
    o_row = (i_b * heads + i_h) * points + o_n
    tl.store(row_max + o_row, b_m, mask=o_n < points)
    tl.store(row_sum + o_row, b_l, mask=o_n < points)


@triton.jit(do_not_specialize=COUNTS)
def deslice_forward(
    query, tokens, slot_weight, slot_bias, temperature, out, row_max, row_sum,
    points, heads, slots,
    query_b, query_n, query_h, weight_b, weight_h, bias_b, bias_h,
    HAS_STATISTICS: tl.constexpr,
    D: tl.constexpr, BD: tl.constexpr, V: tl.constexpr, BV: tl.constexpr,
    HAS_BIAS: tl.constexpr, LOGITS: tl.constexpr, VALUES: tl.constexpr,
    BN: tl.constexpr, BG: tl.constexpr,
):  # fmt: skip
    """out (B, N, H, V): by m and l where they are in hand, else online, leaving them behind."""
    i_n, i_h, i_b = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    o_n = i_n * BN + tl.arange(0, BN)
    m_n = o_n < points
    o_row = (i_b * heads + i_h) * points + o_n
    p_weight = slot_weight + i_b * weight_b + i_h * weight_h
    p_bias = slot_bias + i_b * bias_b + i_h * bias_h
    p_tokens = tokens + (i_b * heads + i_h) * slots * V
    scale = logit_scale(tl.load(temperature + i_h))
    # [BN, BD]
    b_query = load_rows(query + far(i_b, query_b, i_h, query_h), o_n, query_n, D, BD, points)
    if HAS_STATISTICS:
        b_m = tl.load(row_max + o_row, mask=m_n, other=FAR)
        b_l = tl.load(row_sum + o_row, mask=m_n, other=1.0)
    else:
        b_m = tl.full([BN], NOWHERE, tl.float32)
        b_l = tl.zeros([BN], tl.float32)
    b_out = tl.zeros([BN, BV], tl.float32)
    for first in range(0, slots, BG):
        o_g = first + tl.arange(0, BG)
        # [BG, BD], [BG], [BG, BV]
        b_slots = load_rows(p_weight, o_g, D, D, BD, slots)
        b_bias = load_slot_bias(p_bias, o_g, slots, scale, HAS_BIAS, NOWHERE)
        b_tokens = load_rows(p_tokens, o_g, V, V, BV, slots)
        b_logits = slot_logits(b_query, b_slots, b_bias, scale, LOGITS)
        if HAS_STATISTICS:
            b_exp = tl.exp2(b_logits - b_m[:, None])
        else:
            b_new = tl.maximum(b_m, tl.max(b_logits, 1))
            b_scale = tl.exp2(b_m - b_new)
            b_exp = tl.exp2(b_logits - b_new[:, None])
            b_l = b_l * b_scale + tl.sum(b_exp, 1)
            b_out = b_out * b_scale[:, None]
            b_m = b_new
        b_out += product(b_exp, b_tokens, VALUES)
    b_out = b_out * reciprocal(b_l)[:, None]
    store_rows(out + i_b * points * heads * V + i_h * V, b_out, o_n, heads * V, V, BV, points)
    if not HAS_STATISTICS:
        tl.store(row_max + o_row, b_m, mask=m_n)
        tl.store(row_sum + o_row, b_l, mask=m_n)


@triton.jit(do_not_specialize=COUNTS)
def slice_forward(
    query, values, slot_weight, slot_bias, temperature, row_max, row_sum, partial,
    points, heads, slots, parts,
    query_b, query_n, query_h, values_b, values_n, values_h,
    weight_b, weight_h, bias_b, bias_h,
    D: tl.constexpr, BD: tl.constexpr, V: tl.constexpr, BV: tl.constexpr,
    HAS_BIAS: tl.constexpr, LOGITS: tl.constexpr, VALUES: tl.constexpr,
    BN: tl.constexpr, BG: tl.constexpr,
):  # fmt: skip
    """partial[b, h, part] = numerator (G V) | mass (G); a program owns BG slots."""
    i_part, i_g, i_bh = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    i_b, i_h = i_bh // heads, i_bh % heads
    o_g = i_g * BG + tl.arange(0, BG)
    p_query = query + far(i_b, query_b, i_h, query_h)
    p_values = values + far(i_b, values_b, i_h, values_h)
    scale = logit_scale(tl.load(temperature + i_h))
    # [BG, BD], [BG]
    b_slots = load_rows(slot_weight + i_b * weight_b + i_h * weight_h, o_g, D, D, BD, slots)
    p_bias = slot_bias + i_b * bias_b + i_h * bias_h
    b_bias = load_slot_bias(p_bias, o_g, slots, scale, HAS_BIAS, NOWHERE)
    b_numerator = tl.zeros([BG, BV], tl.float32)
    b_mass = no_column_sums(BG, VALUES)
    for start in range(i_part * BN, points, parts * BN):
        o_n = start + tl.arange(0, BN)
        m_n = o_n < points
        # [BN, BD], [BN, BV], [BN], [BN]
        b_query = load_rows(p_query, o_n, query_n, D, BD, points)
        b_values = load_rows(p_values, o_n, values_n, V, BV, points)
        b_m = tl.load(row_max + i_bh * points + o_n, mask=m_n, other=FAR)
        b_l = tl.load(row_sum + i_bh * points + o_n, mask=m_n, other=1.0)
        b_logits = slot_logits(b_query, b_slots, b_bias, scale, LOGITS)
        # Beyond the last point m is far above all logits, so the weights are zero.
        b_w = tl.exp2(b_logits - b_m[:, None]) * reciprocal(b_l)[:, None]
        b_mass = add_column_sums(b_mass, b_w, m_n, VALUES)
        b_numerator += product(tl.trans(b_w), b_values, VALUES)
    p_part = partial + (i_bh * parts + i_part) * slots * (V + 1)
    store_rows(p_part, b_numerator, o_g, V, V, BV, slots)
    tl.store(p_part + slots * V + o_g, column_sums(b_mass, VALUES), mask=o_g < slots)


@triton.jit(do_not_specialize=COUNTS)
def slice_forward_over_points(
    query, values, slot_weight, slot_bias, temperature, partial,
    points, heads, slots, parts,
    query_b, query_n, query_h, values_b, values_n, values_h,
    weight_b, weight_h, bias_b, bias_h,
    D: tl.constexpr, BD: tl.constexpr, V: tl.constexpr, BV: tl.constexpr,
    HAS_BIAS: tl.constexpr, LOGITS: tl.constexpr, VALUES: tl.constexpr,
    BN: tl.constexpr, BG: tl.constexpr,
):  # fmt: skip
    """Softmax over the points of each slot, online in the points.

    partial[b, h, part] = sum of exp(logit - max) values (G x V) | max (G) | sum of exp(logit - max)
    (G), over the part's points; a part without points leaves (0, -inf, 0).
    """
    i_part, i_g, i_bh = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    i_b, i_h = i_bh // heads, i_bh % heads
    o_g = i_g * BG + tl.arange(0, BG)
    p_query = query + far(i_b, query_b, i_h, query_h)
    p_values = values + far(i_b, values_b, i_h, values_h)
    scale = logit_scale(tl.load(temperature + i_h))
    # [BG, BD], [BG]
    b_slots = load_rows(slot_weight + i_b * weight_b + i_h * weight_h, o_g, D, D, BD, slots)
    p_bias = slot_bias + i_b * bias_b + i_h * bias_h
    b_bias = load_slot_bias(p_bias, o_g, slots, scale, HAS_BIAS, 0.0)
    b_sum = tl.zeros([BG, BV], tl.float32)
    b_m = tl.full([BG], float("-inf"), tl.float32)
    b_l = tl.zeros([BG], tl.float32)
    for start in range(i_part * BN, points, parts * BN):
        o_n = start + tl.arange(0, BN)
        # [BN, BD], [BN, BV]
        b_query = load_rows(p_query, o_n, query_n, D, BD, points)
        b_values = load_rows(p_values, o_n, values_n, V, BV, points)
        b_logits = slot_logits(b_query, b_slots, b_bias, scale, LOGITS)
        b_logits = tl.where((o_n < points)[:, None], b_logits, float("-inf"))
        b_new = tl.maximum(b_m, tl.max(b_logits, 0))
        b_scale = tl.exp2(b_m - b_new)
        b_exp = tl.exp2(b_logits - b_new[None, :])
        b_l = b_l * b_scale + tl.sum(b_exp, 0)
        b_sum = b_sum * b_scale[:, None] + product(tl.trans(b_exp), b_values, VALUES)
        b_m = b_new
    p_part = partial + (i_bh * parts + i_part) * slots * (V + 2)
    store_rows(p_part, b_sum, o_g, V, V, BV, slots)
    tl.store(p_part + slots * V + o_g, b_m, mask=o_g < slots)
    tl.store(p_part + slots * (V + 1) + o_g, b_l, mask=o_g < slots)
