"""The GPU's operators where Triton cannot run, computed by the chunked family.

For a model that was exported or compiled with the kernels and now runs on a CPU, or on a GPU whose
blocks have too little memory for them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from slipstream.kernels import chunked
from slipstream.kernels.chunked import Slotted
from slipstream.kernels.launch import LOG_2, centres, log_normalizer
from slipstream.kernels.membership import MASKED
from slipstream.kernels.operands import Backward, Gradients, Operands, shared_heads, to_layout


def statistics(o: Operands) -> Tensor:
    """(2, B, H, N) of the kernels' statistics; nothing here reads them."""
    return o.buffer(2, o.batch, o.heads, o.points).zero_()


def slice_points(o: Operands, values: Tensor) -> tuple[Tensor, Tensor]:
    return chunked.slice_points(_slotted(o), values)


def slice_over_points(o: Operands, values: Tensor) -> tuple[Tensor, Tensor]:
    """The numerator, and the normalisers (2, B, H, G) in the kernels' form."""
    numerator, normalizer = chunked.slice_over_points(_slotted(o, over_points=True), values)
    return numerator, torch.stack((normalizer / LOG_2, torch.ones_like(normalizer)))


def deslice_tokens(o: Operands, tokens: Tensor) -> Tensor:
    out = o.query.new_empty(o.batch, o.points, o.heads, tokens.shape[-1])
    return chunked.deslice_tokens(_slotted(o), tokens, out)


def backward(
    o: Operands, of: Backward, normalizers: Tensor | None = None, *, over_points: bool = False
) -> Gradients:
    """As `launch.backward_blocked`; over the slots it needs no normalisers."""
    slotted = _slotted(o, over_points=over_points, normalizers=normalizers)
    terms = [(of.rows, of.tokens)]
    if of.kind == "pair":
        terms.append((of.output_gradient, of.output_tokens))
    of_values = None if of.kind == "deslice" else torch.empty_like(of.rows)
    shift = None if of.kind == "deslice" else of.shift
    gradients = chunked.backward(slotted, terms, shift, of_values, of.mass)
    if of.kind == "deslice":
        of_rows, _ = chunked.slice_points(slotted, of.rows)
    else:
        assert gradients.rows is not None
        of_rows = gradients.rows
    tau = o.temperature.float()
    of_bias = gradients.bias.expand(o.batch, -1, -1) if slotted.batch == 1 else gradients.bias
    return (
        shared_heads(gradients.query, o.query),
        of_rows,
        to_layout(gradients.weight[:, :, None] / tau[:, None, None, None], o.slot_weight, 2),
        o.buffer(0)
        if o.slot_bias is None
        else to_layout(of_bias[:, :, None] / tau[:, None, None], o.slot_bias, 1),
        _temperature_gradient(o, slotted, gradients, normalizers if over_points else None),
    )


def _temperature_gradient(
    o: Operands, slotted: Slotted, gradients: chunked.Gradients, normalizers: Tensor | None
) -> Tensor:
    """Against the logits; over the points against the logits less `centres`, as the kernels'."""
    total = (gradients.weight * slotted.weight).sum((0, 2, 3))
    if slotted.bias is not None:
        total = total + (gradients.bias * slotted.bias).sum((0, 2))
    if normalizers is not None:
        total = total - (gradients.bias * centres(normalizers, o.points) * LOG_2).sum((0, 2))
    return (-total / o.temperature.float()).to(o.temperature.dtype)


def _slotted(
    o: Operands, *, over_points: bool = False, normalizers: Tensor | None = None
) -> Slotted:
    tau = o.temperature.float()[:, None]
    weight = (o.slot_weight.float() / tau[..., None]).expand(o.batch, -1, -1, -1)
    bias = None
    if o.slot_bias is not None:
        bias = (o.slot_bias.float().clamp(min=MASKED) / tau).expand(o.batch, -1, -1)
    known = None if normalizers is None else log_normalizer(normalizers)
    return Slotted(
        o.query, weight, bias, "points" if over_points else "slots", log_normalizer=known
    )
