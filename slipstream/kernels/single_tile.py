"""The single-tile family: all G slots in one tile, the softmax in registers, nothing stored.

D, V and G are powers of two. A program takes one head of one sample and every
`parts`-th tile of BN points; what it sums over points goes into its own row of `partial` (fp32),
which the host adds up in a fixed order: no atomics.
"""

from __future__ import annotations

import triton
import triton.language as tl

from slipstream.kernels.primitives import (
    COUNTS,
    LOG_2,
    NOWHERE,
    TINY,
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
    softmax_rows,
    store_rows,
)


@triton.jit(do_not_specialize=COUNTS)
def slice_forward(
    query, values, slot_weight, slot_bias, temperature, partial,
    points, heads, parts,
    query_b, query_n, query_h, values_b, values_n, values_h,
    weight_b, weight_h, bias_b, bias_h,
    G: tl.constexpr, D: tl.constexpr, V: tl.constexpr,
    HAS_BIAS: tl.constexpr, LOGITS: tl.constexpr, VALUES: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """partial[b, h, part] = numerator (G x V) | mass (G), summed over the part's points."""
    i_part, i_h, i_b = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    o_g = tl.arange(0, G)
    p_query = query + far(i_b, query_b, i_h, query_h)
    p_values = values + far(i_b, values_b, i_h, values_h)
    p_bias = slot_bias + i_b * bias_b + i_h * bias_h
    scale = logit_scale(tl.load(temperature + i_h))
    # [G, D], [G]
    b_slots = load_rows(slot_weight + i_b * weight_b + i_h * weight_h, o_g, D, D, D, G)
    b_bias = load_slot_bias(p_bias, o_g, G, scale, HAS_BIAS, NOWHERE)
    b_numerator = tl.zeros([G, V], tl.float32)
    b_mass = no_column_sums(G, VALUES)
    for start in range(i_part * BN, points, parts * BN):
        o_n = start + tl.arange(0, BN)
        # [BN, D], [BN, V]
        b_query = load_rows(p_query, o_n, query_n, D, D, points)
        b_values = load_rows(p_values, o_n, values_n, V, V, points)
        b_w = softmax_rows(slot_logits(b_query, b_slots, b_bias, scale, LOGITS))
        # Rows of values beyond the last point are zero, so their weights count for the mass alone.
        b_mass = add_column_sums(b_mass, b_w, o_n < points, VALUES)
        b_numerator += product(tl.trans(b_w), b_values, VALUES)
    p_row = partial + ((i_b * heads + i_h) * parts + i_part) * (G * V + G)
    store_rows(p_row, b_numerator, o_g, V, V, V, G)
    tl.store(p_row + G * V + o_g, column_sums(b_mass, VALUES))


@triton.jit(do_not_specialize=COUNTS)
def deslice_forward(
    query, tokens, slot_weight, slot_bias, temperature, out,
    points, heads, parts,
    query_b, query_n, query_h,
    weight_b, weight_h, bias_b, bias_h,
    G: tl.constexpr, D: tl.constexpr, V: tl.constexpr,
    HAS_BIAS: tl.constexpr, LOGITS: tl.constexpr, VALUES: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """out (B, N, H, V) from tokens (B, H, G, V), both contiguous."""
    i_part, i_h, i_b = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    o_g = tl.arange(0, G)
    p_query = query + far(i_b, query_b, i_h, query_h)
    p_out = out + i_b * points * heads * V + i_h * V
    p_bias = slot_bias + i_b * bias_b + i_h * bias_h
    scale = logit_scale(tl.load(temperature + i_h))
    # [G, D], [G], [G, V]
    b_slots = load_rows(slot_weight + i_b * weight_b + i_h * weight_h, o_g, D, D, D, G)
    b_bias = load_slot_bias(p_bias, o_g, G, scale, HAS_BIAS, NOWHERE)
    b_tokens = load_rows(tokens + (i_b * heads + i_h) * G * V, o_g, V, V, V, G)
    for start in range(i_part * BN, points, parts * BN):
        o_n = start + tl.arange(0, BN)
        # [BN, D]
        b_query = load_rows(p_query, o_n, query_n, D, D, points)
        b_w = softmax_rows(slot_logits(b_query, b_slots, b_bias, scale, LOGITS))
        b_out = product(b_w, b_tokens, VALUES)
        store_rows(p_out, b_out, o_n, heads * V, V, V, points)


@triton.jit(do_not_specialize=COUNTS)
def backward(
    query, rows, tokens, mass_gradient, output_gradient, output_tokens,
    slot_weight, slot_bias, temperature,
    query_gradient, rows_gradient, partial,
    points, heads, parts,
    query_b, query_n, query_h, rows_b, rows_n, rows_h, output_b, output_n, output_h,
    weight_b, weight_h, bias_b, bias_h,
    OF: tl.constexpr, JOINT: tl.constexpr,
    G: tl.constexpr, D: tl.constexpr, V: tl.constexpr,
    HAS_BIAS: tl.constexpr, LOGITS: tl.constexpr, VALUES: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Backward of slice, of deslice, or of a pair of them with one membership.

    OF slice: rows are the values, tokens the gradient of the numerator; gives the gradient of the
    rows, w tokens. OF deslice: rows are the gradient of the output; gives the gradient of the
    tokens, w^T rows. In both the gradient of the weights is rows tokens^T (plus the mass's), and
    from there on all is equal, so that of a pair is the sum: `output_gradient` and `output_tokens`
    are the deslice's rows and tokens, the others the slice's. The gradients of query and rows are
    tensors of their own, or, where JOINT is 2, the halves of one (B, N, 2, H, D).
    partial[b, h, part] = slot weight (G x D) | slot bias (G) | temperature (1) | tokens (G x V, of
    deslice only).
    """
    # Heads lie next to each other in memory: programs that run together take those of one part.
    i, i_b = tl.program_id(0), tl.program_id(1).to(tl.int64)
    i_part, i_h = i // heads, i % heads
    o_g = tl.arange(0, G)
    i_bh = i_b * heads + i_h
    p_query = query + far(i_b, query_b, i_h, query_h)
    p_rows = rows + far(i_b, rows_b, i_h, rows_h)
    p_output = output_gradient + far(i_b, output_b, i_h, output_h)
    p_query_gradient = query_gradient + i_b * points * JOINT * heads * D + i_h * D
    p_rows_gradient = rows_gradient + i_b * points * JOINT * heads * V + i_h * V
    p_bias = slot_bias + i_b * bias_b + i_h * bias_h
    scale = logit_scale(tl.load(temperature + i_h))
    inverse = reciprocal(tl.load(temperature + i_h).to(tl.float32))
    # [G, D], [G], [G, V]
    b_slots = load_rows(slot_weight + i_b * weight_b + i_h * weight_h, o_g, D, D, D, G)
    b_bias = load_slot_bias(p_bias, o_g, G, scale, HAS_BIAS, NOWHERE)
    b_tokens = load_rows(tokens + i_bh * G * V, o_g, V, V, V, G)
    if OF != "deslice":
        b_mass_gradient = tl.load(mass_gradient + i_bh * G + o_g).to(tl.float32)
    if OF == "pair":
        b_output_tokens = load_rows(output_tokens + i_bh * G * V, o_g, V, V, V, G)
    b_dslots = tl.zeros([G, D], tl.float32)
    b_dbias = tl.zeros([G], tl.float32)
    b_dtemperature = tl.zeros([BN], tl.float32)
    if OF == "deslice":
        b_dtokens = tl.zeros([G, V], tl.float32)
    for start in range(i_part * BN, points, parts * BN):
        o_n = start + tl.arange(0, BN)
        # [BN, D], [BN, V]
        b_query = load_rows(p_query, o_n, query_n, D, D, points)
        b_rows = load_rows(p_rows, o_n, rows_n, V, V, points)
        b_w = softmax_rows(slot_logits(b_query, b_slots, b_bias, scale, LOGITS))
        b_dw = product(b_rows, tl.trans(b_tokens), VALUES)
        if OF == "deslice":
            b_dtokens += product(tl.trans(b_w), b_rows, VALUES)
        else:
            b_dw += b_mass_gradient[None, :]
            b_drows = product(b_w, b_tokens, VALUES)
            store_rows(p_rows_gradient, b_drows, o_n, JOINT * heads * V, V, V, points)
        if OF == "pair":
            b_output = load_rows(p_output, o_n, output_n, V, V, points)
            b_dw += product(b_output, tl.trans(b_output_tokens), VALUES)
        b_wdw = b_w * b_dw
        b_dlogits = b_wdw - b_w * tl.sum(b_wdw, 1)[:, None]
        # The logits but for a number that a row's gradients, which sum to zero, cancel: so that
        # they are 0 for even weights. Taken from the weights again, to keep registers free.
        b_centred = tl.log2(tl.maximum(b_w, TINY) * G)
        b_dtemperature += tl.where(o_n < points, tl.sum(b_dlogits * b_centred, 1), 0.0)
        b_dbias += tl.sum(tl.where((o_n < points)[:, None], b_dlogits, 0.0), 0)
        b_dslots += product(tl.trans(b_dlogits), b_query, VALUES)
        b_dquery = product(b_dlogits, b_slots, VALUES) * inverse
        store_rows(p_query_gradient, b_dquery, o_n, JOINT * heads * D, D, D, points)
    # The logits it was summed against are in units of log 2.
    dtemperature = -tl.sum(b_dtemperature, 0) * inverse * LOG_2
    SIZE: tl.constexpr = G * D + G + 1 + (G * V if OF == "deslice" else 0)
    p_part = partial + (i_bh * parts + i_part) * SIZE
    store_rows(p_part, b_dslots * inverse, o_g, D, D, D, G)
    tl.store(p_part + G * D + o_g, b_dbias * inverse)
    tl.store(p_part + G * D + G, dtemperature)
    if OF == "deslice":
        store_rows(p_part + G * D + G + 1, b_dtokens, o_g, V, V, V, G)
