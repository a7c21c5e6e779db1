"""The gate: errors against fp64, tensor by tensor, relative to those of eager on the same inputs.

A *problem* is a function of a `Way` to compute it and of the number of a draw of its inputs; it
gives its outputs and gradients by name. Errors are taken over several draws together: that of a
single number, as a temperature's gradient is, would be chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from slipstream.kernels.plan import Impl

Tensors = dict[str, Tensor]
LIMITS = {"ieee": 1.25, "tf32": 10.0, "tf32x3": 10.0, "bf16v": 2.0, "bf16": 2.0}
"""Largest ratio of the fused error to eager's; for tf32, to eager's with TF32 products allowed."""
ILL_CONDITIONED, ILL_CONDITIONED_LIMIT = 1e-4, 3.0
"""Where eager fp32 itself is off by more than this, `ieee` may be off by three times as much."""
BLOCKED_TEMPERATURE_LIMIT = 2.0
"""For the gradient of the temperature in the blocked family: what a long cancelling sum leaves."""
FLOOR, BF16_FLOOR, FP16_FLOOR = 1e-6, 2.0**-9, 2.0**-12
"""Errors of a few ulp, or of rounding the result to half precision, pass whatever eager's is."""
LOST = 0.1
"""Where eager is off by more than this share of a tensor, it has no digit of it right: it is what
the rounding of far larger ones has left. In `tf32` as much as that rounds passes there."""
TF32_FLOOR = 2.0**-11
"""Relative to a thousandth of the largest tensor, which is more than such a one is itself."""
DRAWS, FEW_DRAWS = 8, 2
"""Of the inputs of a problem, over which errors are taken together; few for the interpreter."""


@dataclass(frozen=True)
class Way:
    """How a problem is computed: by which implementation, from tensors of which dtype."""

    impl: Impl = "reference"
    precision: str | None = None
    dtype: torch.dtype = torch.float32
    autocast: bool = False
    """To bf16, with parameters of `dtype`."""
    tf32: bool = False
    """Whether torch's own fp32 products may be TF32."""

    def eager(self) -> Way:
        """What this one is measured by; with TF32 products where the kernels use them."""
        return replace(self, impl="reference", precision=None, tf32=self.precision == "tf32")


EXACT = Way(dtype=torch.float64)
Problem = Callable[[Way, int], Tensors]


@dataclass(frozen=True)
class Verdict:
    """What the gate found. The ratios are of errors, or what a special check compares."""

    passed: bool
    tensor: str
    """The one nearest to its limit, or furthest beyond."""
    worst: float
    """Its ratio; infinite where it is not finite."""
    limit: float
    deterministic: bool
    """Whether two runs agreed to the bit."""
    ratios: dict[str, float]
    plan: str = ""
    worst_to_fp32: float | None = None
    """For tf32: the largest ratio to eager fp32 without TF32 products, which nothing limits."""

    @property
    def green(self) -> bool:
        return self.passed and self.deterministic

    def as_json(self) -> dict[str, Any]:
        """Fields of a record, `green` among them; null stands for a number that is not finite."""
        return {"green": self.green, **{n: _finite(v) for n, v in asdict(self).items()}}


class Yardstick:
    """What the results of one problem are held to: exact ones and eager's errors, found once."""

    def __init__(self, problem: Problem, draws: int) -> None:
        self.problem, self.draws = problem, draws
        self.exact = self.results(EXACT)
        self.norms = _norms(self.exact)
        largest = max(self.norms.values())
        self.scales = {name: max(norm, 1e-3 * largest) or 1.0 for name, norm in self.norms.items()}
        self.eager_errors = cache(self._eager_errors)

    def results(self, way: Way, problem: Problem | None = None) -> list[Tensors]:
        return [(problem or self.problem)(way, draw) for draw in range(self.draws)]

    def errors(self, got: list[Tensors]) -> dict[str, float]:
        """Of all draws as one, relative to the norm, or to a thousandth of the largest one.

        A tensor that is not finite, or not there, is infinitely wrong.
        """
        nothing = torch.tensor(math.inf)
        differences = [
            {n: got[n].double() - t if n in got else nothing.to(t) for n, t in exact.items()}
            for got, exact in zip(got, self.exact, strict=True)
        ]
        found = _norms(differences)
        return {n: e / self.scales[n] if math.isfinite(e) else math.inf for n, e in found.items()}

    def lost(self, name: str, error: float) -> bool:
        """Whether a tensor with this error has no digit right."""
        return error * self.scales[name] > LOST * self.norms[name]

    def _eager_errors(self, way: Way) -> dict[str, float]:
        return self.errors(self.results(way))


def draws_on(device: str) -> int:
    return DRAWS if torch.device(device).type == "cuda" else FEW_DRAWS


def judge(
    yardstick: Yardstick,
    way: Way,
    *,
    plan: str = "",
    problem: Problem | None = None,
    slack: float = 1.0,
    floors: Mapping[str, float] | None = None,
) -> Verdict:
    """Compute the problem that way, the first draw twice, and hold it to eager's errors.

    `plan` says which kernels run, as `Plan` writes it. `problem` is what is judged where it is not
    the yardstick's own, and `slack` a factor on every limit. `floors` are errors of single tensors
    that pass whatever eager's is.
    """
    results = yardstick.results(way, problem)
    first, second = results[0], (problem or yardstick.problem)(way, 0)
    same = first.keys() == second.keys() and all(torch.equal(first[n], second[n]) for n in first)
    eager, errors = yardstick.eager_errors(way.eager()), yardstick.errors(results)

    def passes(name: str) -> float:
        given = (floors or {}).get(name, _floor(first.get(name)))
        lost = way.precision == "tf32" and yardstick.lost(name, eager[name])
        return max(given, TF32_FLOOR) if lost else given

    limits = {name: slack * limit(way, plan, name, eager[name]) for name in eager}
    ratios = {name: errors[name] / max(eager[name], passes(name) / limits[name]) for name in errors}
    worst = max(ratios, key=lambda name: ratios[name] / limits[name])
    to_fp32 = None
    if way.precision == "tf32" and way.dtype == torch.float32 and not way.autocast:
        plain = yardstick.eager_errors(replace(way.eager(), tf32=False))
        to_fp32 = max(errors[name] / max(plain[name], FLOOR) for name in errors)
    return Verdict(
        passed=ratios[worst] <= limits[worst], tensor=worst, worst=ratios[worst],
        limit=limits[worst], deterministic=same, ratios=ratios, plan=plan, worst_to_fp32=to_fp32,
    )  # fmt: skip


def compared(differences: dict[str, float], limits: dict[str, float]) -> Verdict:
    """The verdict on differences that have limits of their own, as the special checks have."""

    def excess(name: str) -> float:
        found, allowed = differences[name], limits[name]
        return found / allowed if allowed else math.inf if found else 0.0

    worst = max(differences, key=excess)
    return Verdict(
        passed=all(found <= limits[name] for name, found in differences.items()), tensor=worst,
        worst=differences[worst], limit=limits[worst], deterministic=True, ratios=differences,
    )  # fmt: skip


def bitwise(got: Tensors, expected: Tensors) -> Verdict:
    """Green where every tensor equals the expected one to the bit; the ratios are differences."""
    differences = {
        name: 0.0 if name in got and torch.equal(got[name], t) else distance(got.get(name), t)
        for name, t in expected.items()
    }
    passed = all(name in got and torch.equal(got[name], t) for name, t in expected.items())
    return replace(compared(differences, dict.fromkeys(differences, 0.0)), passed=passed)


def distance(got: Tensor | None, expected: Tensor) -> float:
    """Relative to the norm of the expected one; infinite where not finite or not there."""
    if got is None or got.shape != expected.shape:
        return math.inf
    expected = expected.double()
    difference, norm = (float(t.norm()) for t in (got.double() - expected, expected))
    return difference / (norm or 1.0) if math.isfinite(difference) else math.inf


def limit(way: Way, plan: str, tensor: str, eager: float) -> float:
    """The largest ratio of errors that passes."""
    assert way.precision is not None, "only the kernels are judged"
    allowed = LIMITS[way.precision]
    fp32 = way.dtype == torch.float32 and not way.autocast
    if way.precision == "ieee" and fp32 and eager > ILL_CONDITIONED:
        allowed = ILL_CONDITIONED_LIMIT
    if tensor.endswith("temperature") and plan.startswith("blocked"):
        allowed = max(allowed, BLOCKED_TEMPERATURE_LIMIT)
    return allowed


def autocast(way: Way, device: str) -> torch.autocast:
    """For the forward pass. Without a cache of casts, which a captured graph could not hold."""
    kind = torch.device(device).type
    return torch.autocast(kind, torch.bfloat16, enabled=way.autocast, cache_enabled=False)


def _norms(draws: list[Tensors]) -> dict[str, float]:
    """Of every name's tensors together, as one long vector; the device is waited for only once."""
    names = list(draws[0])
    norms = torch.stack([torch.stack([d[name].norm() for d in draws]).norm() for name in names])
    return dict(zip(names, norms.tolist(), strict=True))


def _floor(tensor: Tensor | None) -> float:
    floors = {torch.bfloat16: BF16_FLOOR, torch.float16: FP16_FLOOR}
    return FLOOR if tensor is None else floors.get(tensor.dtype, FLOOR)


def _finite(value: Any) -> Any:
    """Numbers to four digits, those that are not finite as None: they are not JSON."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, float):
        return float(f"{value:.4g}") if math.isfinite(value) else None
    return value
