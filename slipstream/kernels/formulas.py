"""What the operators compute where Triton cannot run: the same numbers, by formula.

For a model that was exported or compiled with the kernels and now runs on a CPU. The weights are
written out, as in `reference`; products and sums are in the dtype of the inputs, fp32 at least.
"""

from __future__ import annotations

import torch
from torch import Tensor

from slipstream.kernels.launch import LOG_2, centres, log_normalizer
from slipstream.kernels.operands import Backward, Gradients, Operands, summed_gradients


def statistics(o: Operands) -> Tensor:
    """(2, B, H, N), as the kernel gives them: the largest logit in units of log 2."""
    logits = _logits(o)
    largest = logits.amax(-1)
    return torch.stack((largest / LOG_2, (logits - largest[..., None]).exp().sum(-1)))


def slice_points(o: Operands, values: Tensor) -> tuple[Tensor, Tensor]:
    weights = _logits(o).softmax(-1)
    return weights.transpose(-1, -2) @ _by_head(values), weights.sum(-2)


def slice_over_points(o: Operands, values: Tensor) -> tuple[Tensor, Tensor]:
    """The numerator, and the normalisers (2, B, H, G) as the kernel gives them."""
    logits = _logits(o)
    largest = logits.amax(-2)
    total = (logits - largest[..., None, :]).exp().sum(-2)
    numerator = logits.softmax(-2).transpose(-1, -2) @ _by_head(values)
    return numerator, torch.stack((largest / LOG_2, total))


def deslice_tokens(o: Operands, tokens: Tensor) -> Tensor:
    out = _logits(o).softmax(-1) @ tokens.float()
    return out.transpose(1, 2).to(o.query.dtype, memory_format=torch.contiguous_format)


def backward(
    o: Operands, of: Backward, normalizers: Tensor | None = None, *, over_points: bool = False
) -> Gradients:
    """As `launch.backward_blocked`; over the slots it needs no normalisers."""
    logits, rows, tokens = _logits(o), _by_head(of.rows), of.tokens.float()
    of_weights = rows @ tokens.transpose(-1, -2)
    if of.kind != "deslice":
        of_weights = of_weights + of.shift[..., None, :]
    if of.kind == "pair":
        output = of.output_tokens.float().transpose(-1, -2)
        of_weights = of_weights + _by_head(of.output_gradient) @ output
    if over_points:
        assert normalizers is not None, "over the points the normalisers must be known"
        weights = (logits - log_normalizer(normalizers)[..., None, :]).exp()
        logits = logits - centres(normalizers, o.points)[..., None, :] * LOG_2
    else:
        weights = logits.softmax(-1)
        of_weights = of_weights - (weights * of_weights).sum(-1, keepdim=True)
        # A point's logit gradients sum to zero; less to cancel in the temperature's gradient.
        logits = logits - logits.amax(-1, keepdim=True)
    of_logits = weights * of_weights
    temperature = o.temperature.float()[:, None, None]
    of_raw = of_logits / temperature
    of_query = (of_raw @ o.slot_weight.float()).transpose(1, 2)
    of_rows = (weights @ tokens).transpose(1, 2).to(of.rows.dtype).contiguous()
    query = _by_head(o.query).expand(-1, o.heads, -1, -1)
    found = [
        (of_raw.transpose(-1, -2) @ query).flatten(-2),
        of_raw.sum(-2),
        -(of_logits * logits / temperature).sum((2, 3))[..., None],
    ]
    if of.kind == "deslice":
        found.append((weights.transpose(-1, -2) @ rows).flatten(-2))
    one_part = [tensor.unsqueeze(2) for tensor in found]
    return summed_gradients(o, of_query.to(o.query.dtype).contiguous(), of_rows, one_part)


def _logits(o: Operands) -> Tensor:
    """(B, H, N, G)."""
    raw = _by_head(o.query) @ o.slot_weight.float().transpose(-1, -2)
    if o.slot_bias is not None:
        raw = raw + o.slot_bias.float()[..., None, :]
    return raw / o.temperature.float()[:, None, None]


def _by_head(rows: Tensor) -> Tensor:
    return rows.transpose(1, 2).float()
