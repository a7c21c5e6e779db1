"""Linear, GELU, linear without the last bias, keeping one tensor between forward and backward.

The products are PyTorch's. The bias before the GELU is added by the GELU's kernel, whose backward
computes the active values again, so that they are not kept, and sums the bias' gradient on the way:
one pass over the hidden tensor where eager mode takes four.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from slipstream.core import runtime
from slipstream.kernels.gelu import gelu_backward, gelu_forward
from slipstream.kernels.operands import device_guard
from slipstream.kernels.operator import operator

WIDEST = 8192
_ELEMENTS, _WARPS, _PER_SM = 4096, 4, 8
"""Numbers of the hidden tensor that a program takes at a time, its warps, programs per
multiprocessor."""


def _mlp_shapes(x, expand, expand_bias, contract, tanh, keep):  # type: ignore[no-untyped-def]
    hidden = x.new_empty(*x.shape[:-1], expand.shape[0]) if keep else x.new_empty(0)
    return x.new_empty(*x.shape[:-1], contract.shape[0]), hidden


@operator("slipstream::mlp", _mlp_shapes)
def mlp(
    x: Tensor, expand: Tensor, expand_bias: Tensor, contract: Tensor, tanh: bool, keep: bool
) -> tuple[Tensor, Tensor]:
    """gelu(x expand^T + expand_bias) contract^T, and x expand^T, which the backward needs.

    Where it is not to be kept, that is empty. All but the bias have one dtype. `tanh` chooses the
    approximate GELU.
    """
    rows = x.reshape(-1, x.shape[-1])
    hidden = rows @ expand.t()
    active = torch.empty_like(hidden) if keep else hidden
    _launch(gelu_forward, hidden, expand_bias, active, tanh=tanh)
    out = (active @ contract.t()).view(*x.shape[:-1], len(contract))
    return out, hidden.view(*x.shape[:-1], len(expand)) if keep else x.new_empty(0)


def _mlp_backward_shapes(gradient, x, hidden, expand, expand_bias, contract, tanh):  # type: ignore[no-untyped-def]
    return tuple(torch.empty_like(t) for t in (x.contiguous(), expand, expand_bias, contract))


@operator("slipstream::mlp_backward", _mlp_backward_shapes)
def mlp_backward(
    gradient: Tensor,
    x: Tensor,
    hidden: Tensor,
    expand: Tensor,
    expand_bias: Tensor,
    contract: Tensor,
    tanh: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of x, expand, its bias and contract."""
    of_out, rows = (t.reshape(-1, t.shape[-1]) for t in (gradient, x))
    hidden = hidden.reshape(-1, hidden.shape[-1])
    of_hidden = of_out @ contract
    active = torch.empty_like(hidden)
    parts = min(_PER_SM * runtime.multiprocessors(x.device), max(1, len(hidden)))
    partial = torch.zeros(parts, hidden.shape[-1], dtype=torch.float32, device=x.device)
    _launch(gelu_backward, of_hidden, hidden, expand_bias, active, partial, tanh=tanh, parts=parts)
    of_contract = of_out.t() @ active
    del active
    of_x, of_expand = of_hidden @ expand, of_hidden.t() @ rows
    return of_x.view(x.shape), of_expand, partial.sum(0).to(expand_bias.dtype), of_contract


def _launch(kernel: Any, first: Tensor, *tensors: Tensor, tanh: bool, parts: int = 0) -> None:
    """One program for every block of rows, or `parts` programs that take turns."""
    count, width = first.shape
    if not first.numel():
        return
    tile = _tile(width)
    counts = (count, parts) if parts else (count,)
    with device_guard(first):
        kernel[(parts or -(-count // tile["BN"]),)](
            first, *(t.contiguous() for t in tensors), *counts,
            K=width, TANH=tanh, EXACT=first.dtype == torch.float32, num_warps=_WARPS, **tile,
        )  # fmt: skip


@cache
def _tile(width: int) -> dict[str, int]:
    padded = 1 << (width - 1).bit_length()
    return {"BK": padded, "BN": max(1, _ELEMENTS // padded)}


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    x, expand, expand_bias, contract, tanh, keep = inputs
    assert keep, "gradients need the hidden tensor"
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(x, output[1], expand, expand_bias, contract)
    ctx.tanh = tanh


def _gradients(ctx: Any, of_out: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    return *mlp_backward(of_out, *ctx.saved_tensors, ctx.tanh), None, None


mlp.set_gradients(_save, _gradients)
