"""Sums over the ranks of a process group, with their gradients.

All ranks of the group must call each of these, with tensors of one shape, in the same order. They
trace into one graph under `torch.compile`, which PyTorch's deprecated
`torch.distributed.nn.functional.all_reduce` refuses (2.13).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def total(tensor: Tensor, group: dist.ProcessGroup) -> Tensor:
    """The sum over the ranks, for whoever goes on with it to a part of the loss of its own.

    The gradient of the sum is then a part too, and the backward pass adds up those of all ranks.
    """
    return _Total.apply(tensor, group)  # type: ignore[no-untyped-call]


def common_total(tensor: Tensor, group: dist.ProcessGroup) -> Tensor:
    """The sum over the ranks, from which all make the same loss.

    Each has the whole gradient of the sum at once, so nothing is exchanged in the backward pass.
    """
    return _CommonTotal.apply(tensor, group)  # type: ignore[no-untyped-call]


@torch.no_grad()
def largest(tensor: Tensor, group: dist.ProcessGroup) -> Tensor:
    """The largest of each number over the ranks, without a gradient."""
    return _reduced(tensor, group, dist.ReduceOp.MAX)


def _reduced(tensor: Tensor, group: dist.ProcessGroup, op: Any = dist.ReduceOp.SUM) -> Tensor:
    reduced = tensor.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(reduced, op, group=group)
    return reduced


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        return _reduced(tensor, group)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return total(gradients[0], ctx.group), None


class _CommonTotal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, group: dist.ProcessGroup) -> Tensor:
        return _reduced(tensor, group)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0], None
