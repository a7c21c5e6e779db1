"""Is the fused layer right, at this shape and precision, on this device? No speed without a yes.

Errors are against the same layer in fp64, tensor by tensor, relative to those of the eager layer on
the same inputs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from slipstream.bench.cases import Case
from slipstream.bench.subjects import Subject, build

LIMITS = {"ieee": 1.25, "tf32": 10.0, "tf32x3": 10.0, "bf16v": 2.0, "bf16": 2.0}
"""Largest ratio of the fused error to eager's; for tf32, to eager's with TF32 products allowed."""
FLOOR = 1e-6
"""Errors of a few ulp pass whatever eager's happened to be."""
POINTS = 4096
ORDERS = 4
"""In how many orders of the points eager is measured: its error on a single number is chance."""


@dataclass(frozen=True)
class Verdict:
    passed: bool
    worst: float
    """Largest ratio of errors."""
    tensor: str
    """Where it is."""
    deterministic: bool

    @property
    def green(self) -> bool:
        return self.passed and self.deterministic


def check(case: Case, device: str = "cuda") -> Verdict:
    """Compare one layer of the case at a few thousand points."""
    small = replace(case, what="layer", points=POINTS, layers=1, training=True, compiled=False)
    exact = _tensors(small, "reference", torch.float64, device)
    orders = [_tensors(small, "reference", torch.float32, device, k) for k in range(ORDERS)]
    eager = {name: max(_errors(o, exact)[name] for o in orders) for name in exact}
    first = _tensors(small, "fused", torch.float32, device)
    second = _tensors(small, "fused", torch.float32, device)
    same = all(torch.equal(first[name], second[name]) for name in first)
    errors = _errors(first, exact)
    ratios = {name: errors[name] / max(eager[name], FLOOR) for name in exact}
    worst = max(ratios, key=lambda name: ratios[name] / _limit(case.precision, name, eager[name]))
    passed = ratios[worst] <= _limit(case.precision, worst, eager[worst])
    return Verdict(passed, ratios[worst], worst, same)


def _limit(precision: str, tensor: str, eager: float) -> float:
    """The paper's: 3 where eager itself is off by more than 1e-4, 2 for temperatures."""
    limit = LIMITS[precision]
    if eager > 1e-4:
        limit = max(limit, 3.0 if precision == "ieee" else limit)
    return max(limit, 2.0) if tensor.endswith("temperature") else limit


def _tensors(
    case: Case, subject: Subject, dtype: torch.dtype, device: str, order: int = 0
) -> dict[str, Tensor]:
    """Output and gradients by name; the points in the `order`-th order, put back after."""
    layer: nn.Module = build(case, subject).to(device, dtype)
    draw = torch.Generator().manual_seed(1)
    x, cotangent = torch.randn(2, 1, case.points, 256, generator=draw)
    shuffle = torch.randperm(case.points, generator=torch.Generator().manual_seed(order))
    place = shuffle if order else torch.arange(case.points)
    x = x[:, place].to(device, dtype).requires_grad_()
    cotangent = cotangent[:, place].to(device, dtype)
    autocast = case.dtype == "bf16" and dtype != torch.float64
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = case.precision == "tf32"
    try:
        with torch.autocast(device, torch.bfloat16, enabled=autocast):
            output = layer(x)[0]
        (output.to(dtype) * cotangent).sum().backward()
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    gradients = {name: p.grad for name, p in layer.named_parameters()}
    assert x.grad is not None
    back = place.argsort().to(device)
    found = {"output": output[:, back], "gradient of x": x.grad[:, back], **gradients}
    return {name: t.detach() for name, t in found.items() if t is not None}


def _errors(got: dict[str, Tensor], exact: dict[str, Tensor]) -> dict[str, float]:
    return {name: float((got[name].double() - t).norm() / t.norm()) for name, t in exact.items()}
