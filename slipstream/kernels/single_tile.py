"""The single-tile family: all G slots in one tile, the softmax in registers, nothing stored.

D, V and G are powers of two from 16 to 128. A program takes one head of one sample and every
`parts`-th tile of BN points; what it sums over points goes into its own row of `partial` (fp32),
which the host adds up in a fixed order: no atomics.
"""

from __future__ import annotations

import triton
import triton.language as tl

from slipstream.kernels.primitives import (
    load_rows,
    load_slot_bias,
    product,
    reciprocal,
    slot_logits,
    softmax_rows,
    store_rows,
)


@triton.jit
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
    p_query = query + i_b * query_b + i_h * query_h
    p_values = values + i_b * values_b + i_h * values_h
    inverse = reciprocal(tl.load(temperature + i_h).to(tl.float32))
    # [G, D], [G]
    b_slots = load_rows(slot_weight + i_b * weight_b + i_h * weight_h, o_g, D, D, D, G)
    b_bias = load_slot_bias(slot_bias + i_b * bias_b + i_h * bias_h, o_g, G, HAS_BIAS)
    b_numerator = tl.zeros([G, V], tl.float32)
    b_mass = tl.zeros([G], tl.float32)
    for start in range(i_part * BN, points, parts * BN):
        o_n = start + tl.arange(0, BN)
        # [BN, D], [BN, V]
        b_query = load_rows(p_query, o_n, query_n, D, D, points)
        b_values = load_rows(p_values, o_n, values_n, V, V, points)
        b_w, _ = softmax_rows(slot_logits(b_query, b_slots, b_bias, inverse, LOGITS))
        b_w = tl.where((o_n < points)[:, None], b_w, 0.0)
        b_mass += tl.sum(b_w, 0)
        b_numerator += product(tl.trans(b_w), b_values, VALUES)
    p_row = partial + ((i_b * heads + i_h) * parts + i_part) * (G * V + G)
    store_rows(p_row, b_numerator, o_g, V, V, V, G)
    tl.store(p_row + G * V + o_g, b_mass)


@triton.jit
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
    p_query = query + i_b * query_b + i_h * query_h
    p_out = out + i_b * points * heads * V + i_h * V
    inverse = reciprocal(tl.load(temperature + i_h).to(tl.float32))
    # [G, D], [G], [G, V]
    b_slots = load_rows(slot_weight + i_b * weight_b + i_h * weight_h, o_g, D, D, D, G)
    b_bias = load_slot_bias(slot_bias + i_b * bias_b + i_h * bias_h, o_g, G, HAS_BIAS)
    b_tokens = load_rows(tokens + (i_b * heads + i_h) * G * V, o_g, V, V, V, G)
    for start in range(i_part * BN, points, parts * BN):
        o_n = start + tl.arange(0, BN)
        # [BN, D]
        b_query = load_rows(p_query, o_n, query_n, D, D, points)
        b_w, _ = softmax_rows(slot_logits(b_query, b_slots, b_bias, inverse, LOGITS))
        b_out = product(b_w, b_tokens, VALUES)
        store_rows(p_out, b_out, o_n, heads * V, V, V, points)


@triton.jit
def backward(
    query, rows, tokens, mass_gradient, slot_weight, slot_bias, temperature,
    query_gradient, rows_gradient, partial,
    points, heads, parts,
    query_b, query_n, query_h, rows_b, rows_n, rows_h,
    weight_b, weight_h, bias_b, bias_h,
    OF_SLICE: tl.constexpr, G: tl.constexpr, D: tl.constexpr, V: tl.constexpr,
    HAS_BIAS: tl.constexpr, LOGITS: tl.constexpr, VALUES: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Backward of either operation; they differ in what rows and tokens are.

    Of slice: rows are the values, tokens the gradient of the numerator; gives the gradient of the
    rows, w tokens. Of deslice: rows are the gradient of the output; gives the gradient of the
    tokens, w^T rows. In both the gradient of the weights is rows tokens^T (plus the mass's), and
    from there on all is equal. partial[b, h, part] = slot weight (G x D) | slot bias (G) |
    temperature (1) | tokens (G x V, of deslice only).
    """
    i_part, i_h, i_b = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    o_g = tl.arange(0, G)
    i_bh = i_b * heads + i_h
    p_query = query + i_b * query_b + i_h * query_h
    p_rows = rows + i_b * rows_b + i_h * rows_h
    p_query_gradient = query_gradient + i_b * points * heads * D + i_h * D
    p_rows_gradient = rows_gradient + i_b * points * heads * V + i_h * V
    inverse = reciprocal(tl.load(temperature + i_h).to(tl.float32))
    # [G, D], [G], [G, V]
    b_slots = load_rows(slot_weight + i_b * weight_b + i_h * weight_h, o_g, D, D, D, G)
    b_bias = load_slot_bias(slot_bias + i_b * bias_b + i_h * bias_h, o_g, G, HAS_BIAS)
    b_tokens = load_rows(tokens + i_bh * G * V, o_g, V, V, V, G)
    if OF_SLICE:
        b_mass_gradient = tl.load(mass_gradient + i_bh * G + o_g).to(tl.float32)
    b_dslots = tl.zeros([G, D], tl.float32)
    b_dbias = tl.zeros([G], tl.float32)
    b_dtemperature = tl.zeros([G], tl.float32)
    if not OF_SLICE:
        b_dtokens = tl.zeros([G, V], tl.float32)
    for start in range(i_part * BN, points, parts * BN):
        o_n = start + tl.arange(0, BN)
        # [BN, D], [BN, V]
        b_query = load_rows(p_query, o_n, query_n, D, D, points)
        b_rows = load_rows(p_rows, o_n, rows_n, V, V, points)
        b_logits = slot_logits(b_query, b_slots, b_bias, inverse, LOGITS)
        b_w, b_centred = softmax_rows(b_logits)
        b_dw = product(b_rows, tl.trans(b_tokens), VALUES)
        if OF_SLICE:
            b_dw += b_mass_gradient[None, :]
            store_rows(
                p_rows_gradient, product(b_w, b_tokens, VALUES), o_n, heads * V, V, V, points
            )
        else:
            # Rows beyond the last point are zero, so their weights do not matter here.
            b_dtokens += product(tl.trans(b_w), b_rows, VALUES)
        b_wdw = b_w * b_dw
        b_dlogits = b_wdw - b_w * tl.sum(b_wdw, 1)[:, None]
        b_dlogits = tl.where((o_n < points)[:, None], b_dlogits, 0.0)
        b_dtemperature += tl.sum(b_dlogits * b_centred, 0)
        b_draw = b_dlogits * inverse
        b_dbias += tl.sum(b_draw, 0)
        b_dslots += product(tl.trans(b_draw), b_query, VALUES)
        b_dquery = product(b_draw, b_slots, VALUES)
        store_rows(p_query_gradient, b_dquery, o_n, heads * D, D, D, points)
    SIZE: tl.constexpr = G * D + G + 1 + (0 if OF_SLICE else G * V)
    p_part = partial + (i_bh * parts + i_part) * SIZE
    store_rows(p_part, b_dslots, o_g, D, D, D, G)
    tl.store(p_part + G * D + o_g, b_dbias)
    tl.store(p_part + G * D + G, -tl.sum(b_dtemperature, 0) * inverse)
    if not OF_SLICE:
        store_rows(p_part + G * D + G + 1, b_dtokens, o_g, V, V, V, G)
