"""A coupling whose projections are folded into its slots and its tokens.

The projections before and after slice and deslice are linear, so they may be applied to the few
slots and tokens instead of to the many points. For each head, with the stream x, slots S and c,
projections W x + b (query), V x + d (values) and O (output), weights p:

    logits     S (W x + b) + c             =  (S W) x + (S b + c)
    numerator  sum over n of p (V x + d)   =  (sum over n of p x) V^T + mass d
    update     O (tokens^T p)              =  (tokens O^T)^T p

Query, values and the heads' outputs, three tensors as large as the stream, are never formed, and
each product is a dense one over all heads. It takes fewer multiplications where G <= D: per point
and layer in training 9 products of C x H G, against 9 of C x C and 9 small ones a head. A CPU does
so; on a GPU only the biases b and d are folded, which cost a product a seventh of its time, and
their gradients a pass over the points each (H200, bf16, 1M points, 2026-11-19).
"""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from slipstream.core.checks import autocast_is_on
from slipstream.core.shapes import Float
from slipstream.kernels.api import plan_on
from slipstream.kernels.membership import Membership, TokenSums
from slipstream.kernels.plan import How
from slipstream.kernels.pointwise import has_hooks
from slipstream.models.layers import Slots


def can_fold(x: Float[Tensor, "B N C"], heads: int, slices: int, how: How) -> bool:
    """Whether the chunked family runs here, and folding saves it work."""
    width = x.shape[-1] // heads
    if slices > width or x.dtype not in (torch.float32, torch.float64) or autocast_is_on(x.device):
        return False
    plan = plan_on(x.device, x.dtype, slices=slices, head_width=width, value_width=width, how=how)
    return plan.family == "chunked"


def are_plain(*modules: nn.Module | None) -> bool:
    """Whether calling these does what a Linear or Slots does, and nobody looks on."""
    own = [module for module in modules if module is not None]
    return all(type(m) in (nn.Linear, Slots) and not has_hooks(m) for m in own)


def fold_membership(query: nn.Linear, slots: Slots, x: Float[Tensor, "B N C"]) -> Membership:
    """The membership of x itself, shared by the heads: slots of the query's projection."""
    weight, bias = fold_slots(query, slots.weight, slots.bias, slots.heads)
    return Membership(x[:, :, None], weight, bias, slots.clamped_temperature(), slots.over)


def fold_slots(
    query: nn.Linear, weight: Float[Tensor, "G D"], bias: Float[Tensor, " G"] | None, heads: int
) -> tuple[Float[Tensor, "H G C"], Float[Tensor, "H G"]]:
    """Weight and bias of the slots of x, from those of the slots of its projected query."""
    unfolded = query.weight.unflatten(0, (heads, -1))  # (H, D, C)
    return weight @ unfolded, F.linear(query.bias.unflatten(0, (heads, -1)), weight, bias)


def fold_sums(values: nn.Linear, sums: TokenSums) -> TokenSums:
    """Sums of the projected values, from those of x."""
    heads = sums.mass.shape[1]
    weight = values.weight.unflatten(0, (heads, -1)).transpose(1, 2)  # (H, C, V)
    bias = values.bias.unflatten(0, (heads, 1, -1))
    return TokenSums(sums.numerator @ weight + sums.mass[..., None] * bias, sums.mass)


def fold_tokens(output: nn.Linear, tokens: Float[Tensor, "B H G V"]) -> Float[Tensor, "B H G C"]:
    """Tokens whose deslice, summed over the heads, is the projected output.

    The weights of a point sum to one in each head, so each head brings its share of the bias.
    """
    heads = tokens.shape[1]
    return tokens @ output.weight.t().unflatten(0, (heads, -1)) + output.bias / heads


def fold_query_bias(query: nn.Linear, slots: Slots) -> Float[Tensor, "H G"]:
    """The bias of the slots of a query without its own bias; in fp32 under autocast, too."""
    own = query.bias.unflatten(0, (slots.heads, 1, -1))  # (H, 1, D)
    bias = (own * slots.weight).sum(-1)
    return bias if slots.bias is None else bias + slots.bias


def fold_value_bias(values: nn.Linear, sums: TokenSums) -> TokenSums:
    """Sums of the values, from those of the values without their bias."""
    bias = values.bias.unflatten(0, (sums.mass.shape[1], 1, -1))  # (H, 1, V)
    return replace(sums, numerator=sums.numerator + sums.mass[..., None] * bias)
