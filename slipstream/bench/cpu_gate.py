"""The gate before anything is timed on a CPU: that a subject computes the same function as ours.

Its outputs, and the gradients of every parameter and of a layer's input, are compared with our
reference in fp64, with the subject's own constants. Their errors are measured by those of our
reference in fp32 on the same inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import nn

from slipstream.bench.cases import Case
from slipstream.bench.cpu_subjects import Subject, build_subject, build_yardstick, rename
from slipstream.bench.gate import DRAWS, Tensors, Verdict, Way, Yardstick, judge
from slipstream.bench.modules import CHECK_POINTS, outputs_and_gradients
from slipstream.bench.subjects import OUTPUTS, draw_inputs, plan_of
from slipstream.core.runtime import generator
from slipstream.models.variants import Size

PEER_SLACK = 4.0
"""A factor on the limits for a peer, which sums in another order. Compared with a wrong constant
(1e-5 added to the mass, where it adds 1e-2), its errors would be hundreds of times as large."""


@dataclass(frozen=True)
class ComparedModule:
    """Output and gradients of a layer or model, under the names of the subject that is judged."""

    build: Callable[[Subject, Case], nn.Module]
    subject: Subject
    case: Case

    def __call__(self, way: Way, draw: int) -> Tensors:
        module = self.build(self.subject, self.case).to(way.dtype)
        inputs = [tensor.to(way.dtype) for tensor in draw_inputs(self.case, number=draw)]
        width = OUTPUTS if self.case.what == "model" else Size().width
        random = generator(draw, "cotangent")
        cotangent = torch.randn(1, self.case.points, width, generator=random)
        if self.build is build_yardstick:
            tensors = outputs_and_gradients(module, inputs, cotangent, way, "cpu")
            return rename(tensors, self.subject, self.case)
        inputs = self.subject.inputs(inputs)
        tensors = outputs_and_gradients(module, inputs, cotangent, way, "cpu")
        # Temperatures have shape (H) with us and (1, H, 1, 1) or (1, 1, H, 1) with others.
        return {n: t.flatten() if n.endswith("temperature") else t for n, t in tensors.items()}


def shape_of(case: Case) -> Case:
    """The case that stands for all with the same sizes, so that the gate checks each only once."""
    return replace(
        case, points=CHECK_POINTS, layers=min(case.layers, 2), training=True, compiled=False
    )


def judge_subject(subject: Subject, shape: Case) -> Verdict:
    """The verdict on a subject at this shape, with few points and not compiled."""
    yardstick = Yardstick(ComparedModule(build_yardstick, subject, shape), DRAWS)
    judged = ComparedModule(build_subject, subject, shape)
    plan = plan_of(shape, subject.impl, None, "cpu") if subject.is_ours else ""
    slack = 1.0 if subject.is_ours else PEER_SLACK
    return judge(yardstick, Way("auto", "ieee"), plan=plan, problem=judged, slack=slack)
