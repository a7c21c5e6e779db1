"""The G-blocked family, backward: a kernel that owns points and one that owns slots.

As in the single-tile family, `rows` (B, N, H, V) and `tokens` (B, H, G, V) are the values and the
numerator's gradient for slice, and the output's gradient and the tokens for deslice; the gradient
of the weights is dw = rows tokens^T plus `shift`, and that of a pair has both.

Over slots the weights are exp(logit - m) / l with per-point statistics, and the gradient of a logit
is w (dw - c) with the point's correction c = sum_g w dw. Nothing changes when all slots' dw move by
one number, so tokens and shift come less their mean over the slots: there is less to cancel. Over
points m and l belong to the slots, and so does the correction: it is in `shift` already, so that
the gradient of a logit is w dw, and `correction` holds the centres of the logits instead.
"""

from __future__ import annotations

import triton
import triton.language as tl

from slipstream.kernels.primitives import (
    COUNTS,
    FAR,
    LOG_2,
    NOWHERE,
    far,
    load_rows,
    load_slot_bias,
    logit_scale,
    product,
    reciprocal,
    rounded_to_bf16,
    slot_logits,
    store_rows,
)


@triton.jit
def block_weights(b_logits, b_m, b_inverse_sum, OVER_POINTS: tl.constexpr):
    """Weights [BN, BG]; b_m belongs to points or slots, and where it is FAR they are 0."""
    if OVER_POINTS:
        b_w = tl.exp2(b_logits - b_m[None, :]) * b_inverse_sum[None, :]
    else:
        b_w = tl.exp2(b_logits - b_m[:, None]) * b_inverse_sum[:, None]
    return b_w


@triton.jit(do_not_specialize=COUNTS)
def backward_points(
    query, rows, tokens, shift, output_gradient, output_tokens, mean_tokens,
    slot_weight, slot_bias, temperature,
    normalizer, row_sum, correction, query_gradient, rows_gradient,
    points, heads, slots,
    query_b, query_n, query_h, rows_b, rows_n, rows_h, output_b, output_n, output_h,
    weight_b, weight_h, bias_b, bias_h,
    OF: tl.constexpr, JOINT: tl.constexpr, OVER_POINTS: tl.constexpr,
    D: tl.constexpr, BD: tl.constexpr, V: tl.constexpr, BV: tl.constexpr,
    HAS_BIAS: tl.constexpr, LOGITS: tl.constexpr, VALUES: tl.constexpr,
    BN: tl.constexpr, BG: tl.constexpr,
):  # fmt: skip
    """Gradient of the query and, but for deslice, of the values; saves the correction (B, H, N).

    JOINT is that of `single_tile.backward`.

    One pass: sum_g w (dw - c) s_g = sum_g (w dw) s_g - c sum_g w s_g, and c is known at its end.
    """
    i_n, i_h, i_b = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    i_bh = i_b * heads + i_h
    o_n = i_n * BN + tl.arange(0, BN)
    m_n = o_n < points
    p_weight = slot_weight + i_b * weight_b + i_h * weight_h
    p_bias = slot_bias + i_b * bias_b + i_h * bias_h
    p_tokens = tokens + i_bh * slots * V
    scale = logit_scale(tl.load(temperature + i_h))
    inverse = reciprocal(tl.load(temperature + i_h).to(tl.float32))
    # [BN, BD], [BN, BV], [BN], [BN]
    b_query = load_rows(query + far(i_b, query_b, i_h, query_h), o_n, query_n, D, BD, points)
    b_rows = load_rows(rows + far(i_b, rows_b, i_h, rows_h), o_n, rows_n, V, BV, points)
    if OF == "pair":
        p_output = output_gradient + far(i_b, output_b, i_h, output_h)
        b_output = load_rows(p_output, o_n, output_n, V, BV, points)
    if not OVER_POINTS:
        b_m = tl.load(normalizer + i_bh * points + o_n, mask=m_n, other=FAR)
        b_inverse_sum = reciprocal(tl.load(row_sum + i_bh * points + o_n, mask=m_n, other=1.0))
        b_correction = tl.zeros([BN], tl.float32)
        b_rounded = tl.zeros([BN], tl.float32)
        b_mean_slot = tl.zeros([BN, BD], tl.float32)
    b_dquery = tl.zeros([BN, BD], tl.float32)
    if OF != "deslice":
        b_drows = tl.zeros([BN, BV], tl.float32)
    for first in range(0, slots, BG):
        o_g = first + tl.arange(0, BG)
        m_g = o_g < slots
        # [BG, BD], [BG], [BG, BV]
        b_slots = load_rows(p_weight, o_g, D, D, BD, slots)
        b_bias = load_slot_bias(p_bias, o_g, slots, scale, HAS_BIAS, NOWHERE)
        b_tokens = load_rows(p_tokens, o_g, V, V, BV, slots)
        b_logits = slot_logits(b_query, b_slots, b_bias, scale, LOGITS)
        if OVER_POINTS:
            b_m = tl.load(normalizer + i_bh * slots + o_g, mask=m_g, other=FAR)
            b_inverse_sum = reciprocal(tl.load(row_sum + i_bh * slots + o_g, mask=m_g, other=1.0))
        b_w = block_weights(b_logits, b_m, b_inverse_sum, OVER_POINTS)
        b_dw = product(b_rows, tl.trans(b_tokens), VALUES)
        if OF == "pair":
            p_output_tokens = output_tokens + i_bh * slots * V
            b_output_tokens = load_rows(p_output_tokens, o_g, V, V, BV, slots)
            b_dw += product(b_output, tl.trans(b_output_tokens), VALUES)
        if OF != "deslice":
            b_dw += tl.load(shift + i_bh * slots + o_g, mask=m_g, other=0.0)[None, :]
            b_drows += product(b_w, b_tokens, VALUES)
        b_wdw = b_w * b_dw
        if not OVER_POINTS:
            b_correction += tl.sum(b_wdw, 1)
            if VALUES == "bf16":
                # Round first: what is taken off then cancels the very products it corrects.
                b_wdw = rounded_to_bf16(b_wdw)
                b_rounded += tl.sum(b_wdw, 1)
            b_mean_slot += product(b_w, b_slots, VALUES)
        b_dquery += product(b_wdw, b_slots, VALUES)
    if not OVER_POINTS:
        if VALUES == "bf16":
            b_dquery -= b_mean_slot * b_rounded[:, None]
        else:
            b_dquery -= b_mean_slot * b_correction[:, None]
        tl.store(correction + i_bh * points + o_n, b_correction, mask=m_n)
    p_gradient = query_gradient + i_b * points * JOINT * heads * D + i_h * D
    store_rows(p_gradient, b_dquery * inverse, o_n, JOINT * heads * D, D, BD, points)
    if OF != "deslice":
        if not OVER_POINTS:
            o_v = tl.arange(0, BV)
            b_drows += tl.load(mean_tokens + i_bh * V + o_v, mask=o_v < V, other=0.0)[None, :]
        p_gradient = rows_gradient + i_b * points * JOINT * heads * V + i_h * V
        store_rows(p_gradient, b_drows, o_n, JOINT * heads * V, V, BV, points)


@triton.jit(do_not_specialize=COUNTS)
def backward_slots(
    query, rows, tokens, shift, output_gradient, output_tokens, mean_tokens,
    slot_weight, slot_bias, temperature,
    normalizer, row_sum, correction, partial,
    points, heads, slots, parts,
    query_b, query_n, query_h, rows_b, rows_n, rows_h, output_b, output_n, output_h,
    weight_b, weight_h, bias_b, bias_h,
    OF: tl.constexpr, OVER_POINTS: tl.constexpr,
    D: tl.constexpr, BD: tl.constexpr, V: tl.constexpr, BV: tl.constexpr,
    HAS_BIAS: tl.constexpr, LOGITS: tl.constexpr, VALUES: tl.constexpr,
    BN: tl.constexpr, BG: tl.constexpr,
):  # fmt: skip
    """partial[b, h, part] = slot weight (G D) | slot bias (G) | temperature (G) | tokens (G V).

    The temperature's is a sum over slots too: it is in the first of a block, the others are zero.
    Tokens are there for deslice only.
    """
    i_part, i_g, i_bh = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    i_b, i_h = i_bh // heads, i_bh % heads
    o_g = i_g * BG + tl.arange(0, BG)
    m_g = o_g < slots
    p_query = query + far(i_b, query_b, i_h, query_h)
    p_rows = rows + far(i_b, rows_b, i_h, rows_h)
    p_output = output_gradient + far(i_b, output_b, i_h, output_h)
    scale = logit_scale(tl.load(temperature + i_h))
    inverse = reciprocal(tl.load(temperature + i_h).to(tl.float32))
    # [BG, BD], [BG], [BG, BV]
    b_slots = load_rows(slot_weight + i_b * weight_b + i_h * weight_h, o_g, D, D, BD, slots)
    p_bias = slot_bias + i_b * bias_b + i_h * bias_h
    b_bias = load_slot_bias(p_bias, o_g, slots, scale, HAS_BIAS, NOWHERE)
    b_tokens = load_rows(tokens + i_bh * slots * V, o_g, V, V, BV, slots)
    if OF == "pair":
        b_output_tokens = load_rows(output_tokens + i_bh * slots * V, o_g, V, V, BV, slots)
    if OF != "deslice":
        b_shift = tl.load(shift + i_bh * slots + o_g, mask=m_g, other=0.0)
    if OVER_POINTS:
        b_m = tl.load(normalizer + i_bh * slots + o_g, mask=m_g, other=FAR)
        b_inverse_sum = reciprocal(tl.load(row_sum + i_bh * slots + o_g, mask=m_g, other=1.0))
        b_centre = tl.load(correction + i_bh * slots + o_g, mask=m_g, other=0.0)
    b_dslots = tl.zeros([BG, BD], tl.float32)
    b_dbias = tl.zeros([BG], tl.float32)
    b_dtemperature = tl.zeros([BN], tl.float32)
    if OF == "deslice":
        b_dtokens = tl.zeros([BG, BV], tl.float32)
    for start in range(i_part * BN, points, parts * BN):
        o_n = start + tl.arange(0, BN)
        m_n = o_n < points
        # [BN, BD], [BN, BV]
        b_query = load_rows(p_query, o_n, query_n, D, BD, points)
        b_rows = load_rows(p_rows, o_n, rows_n, V, BV, points)
        b_logits = slot_logits(b_query, b_slots, b_bias, scale, LOGITS)
        if OVER_POINTS:
            b_w = block_weights(b_logits, b_m, b_inverse_sum, OVER_POINTS)
            b_w = tl.where(m_n[:, None], b_w, 0.0)
            b_centred = b_logits - b_centre[None, :]
        else:
            # Beyond the last point m is far above all logits, so the weights are zero.
            b_max = tl.load(normalizer + i_bh * points + o_n, mask=m_n, other=FAR)
            b_sum = tl.load(row_sum + i_bh * points + o_n, mask=m_n, other=1.0)
            b_centred = b_logits - b_max[:, None]
            b_w = tl.exp2(b_centred) * reciprocal(b_sum)[:, None]
        b_dw = product(b_rows, tl.trans(b_tokens), VALUES)
        if OF == "pair":
            b_output = load_rows(p_output, o_n, output_n, V, BV, points)
            b_dw += product(b_output, tl.trans(b_output_tokens), VALUES)
        if OF == "deslice":
            b_dtokens += product(tl.trans(b_w), b_rows, VALUES)
        else:
            b_dw += b_shift[None, :]
        if not OVER_POINTS:
            b_dw -= tl.load(correction + i_bh * points + o_n, mask=m_n, other=0.0)[:, None]
        b_dlogits = b_w * b_dw
        # Logits less what cancels: over slots the largest, since a point's gradients sum to zero;
        # over points the logarithm of the mean, where a slot's do but for `shift` (see `ops`).
        b_dtemperature += tl.sum(b_dlogits * b_centred, 1)
        b_dbias += tl.sum(b_dlogits, 0)
        b_dslots += product(tl.trans(b_dlogits), b_query, VALUES)
    # The logits it was summed against are in units of log 2.
    dtemperature = -tl.sum(b_dtemperature, 0) * inverse * LOG_2
    SIZE: tl.constexpr = D + 2 + (V if OF == "deslice" else 0)
    p_part = partial + (i_bh * parts + i_part) * slots * SIZE
    store_rows(p_part, b_dslots * inverse, o_g, D, D, BD, slots)
    tl.store(p_part + slots * D + o_g, b_dbias * inverse, mask=m_g)
    b_first = tl.where(o_g == i_g * BG, dtemperature, 0.0)
    tl.store(p_part + slots * (D + 1) + o_g, b_first, mask=m_g)
    if OF == "deslice":
        store_rows(p_part + slots * (D + 2), b_dtokens, o_g, V, V, BV, slots)
