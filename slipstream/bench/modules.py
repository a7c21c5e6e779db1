"""Output and gradients of a layer or a model, by name, as a problem for the gate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor, nn

from slipstream.bench.cases import Case
from slipstream.bench.gate import (
    Tensors,
    Verdict,
    Way,
    Yardstick,
    autocast,
    draws_on,
    judge,
)
from slipstream.bench.subjects import OUTPUTS, build, draw_inputs, plan_of, spread_slots
from slipstream.bench.tf32 import tf32_products
from slipstream.core.runtime import generator

DRAWS = 4
"""Draws of inputs, fewer than for operators: errors of many numbers vary less."""
CHECK_POINTS = 3001


@dataclass(frozen=True)
class ModuleProblem:
    """A layer or model of a case's shape and dtype, with slots spread as after training."""

    case: Case
    batch: int = 1
    device: str = "cuda"

    def __call__(self, way: Way, draw: int) -> Tensors:
        return outputs_and_gradients(*self.setting(way, draw=draw), way, self.device)

    def setting(
        self, way: Way, *, order: int = 0, draw: int = 0
    ) -> tuple[nn.Module, list[Tensor], Tensor]:
        """The module, its inputs and the cotangent of its output.

        An `order` other than 0 shuffles the points, each number in another way.
        """
        case = self.case
        module = spread_slots(build(case, way.impl, way.precision)).to(self.device, way.dtype)
        place = self._place(order)
        inputs = [
            t[:, place].to(self.device, way.dtype) for t in draw_inputs(case, self.batch, draw)
        ]
        width = OUTPUTS if case.what == "model" else inputs[0].shape[-1]
        random = generator(draw, "cotangent")
        cotangent = torch.randn(self.batch, case.points, width, generator=random)
        return module, inputs, cotangent[:, place].to(self.device, way.dtype)

    def _place(self, order: int) -> Tensor:
        points = self.case.points
        if order == 0:
            return torch.arange(points)
        return torch.randperm(points, generator=generator(order, "order"))


def outputs_and_gradients(
    module: nn.Module, inputs: list[Tensor], cotangent: Tensor, way: Way, device: str
) -> Tensors:
    """The output, every parameter's gradient and, of a layer, that of its input."""
    leaves: Tensors = dict(module.named_parameters())
    if len(inputs) == 1:
        leaves["gradient of x"] = inputs[0].requires_grad_()
    with tf32_products(way.tf32):
        with autocast(way, device):
            returned = module(*inputs)
        output = returned[0] if isinstance(returned, tuple) else returned
        gradients = torch.autograd.grad(output, list(leaves.values()), cotangent.to(output.dtype))
    named = dict(zip(leaves, gradients, strict=True))
    return {name: t.detach() for name, t in {"output": output, **named}.items()}


@cache
def yardstick_of(problem: ModuleProblem) -> Yardstick:
    return Yardstick(problem, min(DRAWS, draws_on(problem.device)))


def way_of(case: Case) -> Way:
    """The way in which our kernels compute a case."""
    return Way("fused", case.precision, torch.float32, autocast=case.dtype == "bf16")


@cache
def judge_module(case: Case, device: str, *, batch: int = 1, slack: float = 1.0) -> Verdict:
    """The verdict on the fused layer or model of a case, at the case's own size."""
    plain = replace(case, precision="")  # the yardstick is the same for every precision
    plan = plan_of(case, "fused", case.precision, device)
    yardstick = yardstick_of(ModuleProblem(plain, batch, device))
    return judge(yardstick, way_of(case), plan=plan, slack=slack)


def check(case: Case, device: str = "cuda", points: int = CHECK_POINTS) -> Verdict:
    """The verdict on the fused case at its shape and precision; only a green one is timed.

    It is computed with few points and at most two layers, and not compiled.
    """
    small = replace(
        case, points=points, layers=min(case.layers, 2), training=True, compiled=False,
        checkpointed=False,
    )  # fmt: skip
    return judge_module(small, device)
