"""The gate: errors against fp64, tensor by tensor, relative to eager's errors on the same inputs.

What is checked is a function of a `Way` to compute it and of a number that fixes its random inputs;
it returns outputs and gradients by name (`GateProblem`). Errors are taken over several draws of the
inputs together, since that of a single number, as a temperature's gradient, is a matter of chance.
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
"""Where the error of eager fp32 itself is above the first, `ieee` may have three times eager's."""
BLOCKED_TEMPERATURE_LIMIT = 2.0
"""For the gradient of the temperature in the blocked family, a long sum whose terms cancel."""
FLOOR, CPU_FLOOR, BF16_FLOOR, FP16_FLOOR = 1e-6, 2.0**-21, 2.0**-9, 2.0**-12
"""Errors of a few ulp, or of rounding the result to half precision, pass whatever eager's is. On a
CPU the largest error above its limit was 3e-7 (a gradient of the slots' bias, in two draws); a GPU
sums in other orders and takes more."""
LOST = 0.1
"""A tensor of which eager is off by more than this share has no digit right: it is the rounding of
far larger tensors that cancelled. In `tf32` an error of `TF32_FLOOR` passes for such a tensor."""
TF32_FLOOR = 2.0**-11
"""Relative to a thousandth of the largest tensor, which is more than a lost tensor itself."""
DRAWS, FEW_DRAWS = 8, 4
"""Draws of the inputs over which errors are taken together; few for the slow interpreter."""


@dataclass(frozen=True)
class Way:
    """How something is computed: by which implementation, from tensors of which dtype."""

    impl: Impl = "reference"
    precision: str | None = None
    dtype: torch.dtype = torch.float32
    autocast: bool = False
    """Whether to compute under autocast to bf16, with parameters of `dtype`."""
    tf32: bool = False
    """Whether torch's own fp32 products may be TF32."""

    def eager(self) -> Way:
        """Eager's way to compute the same, with TF32 products where the kernels use them."""
        return replace(self, impl="reference", precision=None, tf32=self.precision == "tf32")


EXACT = Way(dtype=torch.float64)
GateProblem = Callable[[Way, int], Tensors]
"""Outputs and gradients by name, computed in a way, for the draw of this number."""


@dataclass(frozen=True)
class Verdict:
    """The result of the gate."""

    passed: bool
    tensor: str
    """The tensor nearest to its limit, or furthest beyond."""
    worst: float
    """The ratio of that tensor; infinite if its values are not finite."""
    limit: float
    deterministic: bool
    """Whether two runs agreed to the bit."""
    ratios: dict[str, float]
    """By tensor the ratio of its error to eager's, or the difference that a special check takes."""
    plan: str = ""
    worst_to_fp32: float | None = None
    """For tf32, the largest ratio to eager fp32 without TF32 products; recorded, not limited."""

    @property
    def green(self) -> bool:
        return self.passed and self.deterministic

    def as_json(self) -> dict[str, Any]:
        """The fields of a record, with `green`; null stands for a number that is not finite."""
        return {"green": self.green, **{n: _finite(v) for n, v in asdict(self).items()}}


class Yardstick:
    """The exact results of a problem, and eager's errors, with which results are compared.

    Both are computed once and kept.
    """

    def __init__(self, problem: GateProblem, draws: int) -> None:
        self.problem, self.draws = problem, draws
        self.exact = self.results(EXACT)
        self.norms = _norms(self.exact)
        largest = max(self.norms.values())
        self.scales = {name: max(norm, 1e-3 * largest) or 1.0 for name, norm in self.norms.items()}
        self._eager = cache(self._eager_results)

    def results(self, way: Way, problem: GateProblem | None = None) -> list[Tensors]:
        return [(problem or self.problem)(way, draw) for draw in range(self.draws)]

    def errors(self, got: list[Tensors]) -> dict[str, float]:
        """The error of each tensor over all draws, relative to its norm.

        For a small tensor it is relative to a thousandth of the largest tensor's norm. The error of
        a tensor that is missing or not finite is infinite.
        """
        nothing = torch.tensor(math.inf)
        differences = [
            {n: got[n].double() - t if n in got else nothing.to(t) for n, t in exact.items()}
            for got, exact in zip(got, self.exact, strict=True)
        ]
        norms = _norms(differences)
        return {n: e / self.scales[n] if math.isfinite(e) else math.inf for n, e in norms.items()}

    def lost(self, name: str, error: float) -> bool:
        """Whether a tensor with this error has no digit right; see `LOST`."""
        return error * self.scales[name] > LOST * self.norms[name]

    def eager_errors(self, way: Way) -> dict[str, float]:
        return self._eager(way)[0]

    def dtypes(self, way: Way) -> dict[str, torch.dtype]:
        """The dtype of every tensor that eager computes this way."""
        return self._eager(way)[1]

    def _eager_results(self, way: Way) -> tuple[dict[str, float], dict[str, torch.dtype]]:
        results = self.results(way)
        return self.errors(results), {name: tensor.dtype for name, tensor in results[0].items()}


def draws_on(device: str) -> int:
    return DRAWS if torch.device(device).type == "cuda" else FEW_DRAWS


def judge(
    yardstick: Yardstick,
    way: Way,
    *,
    plan: str = "",
    problem: GateProblem | None = None,
    slack: float = 1.0,
    floors: Mapping[str, float] | None = None,
) -> Verdict:
    """Compute the problem that way, the first draw twice, and compare its errors with eager's.

    `plan` says which kernels run, as `Plan` writes it. `problem`, if given, is computed instead of
    the yardstick's own. `slack` is a factor on every limit. `floors` are errors of single tensors
    that pass whatever eager's is.

    A tensor of another dtype than eager's fails, whatever its error.

    With an error of 3e-6 where eager has 2e-6, the ratio is 1.5. Where eager has 1e-8 and the limit
    is 2, an error of 9e-7 passes on a GPU: it is divided by FLOOR / 2 = 5e-7, which gives 1.8.
    """
    results = yardstick.results(way, problem)
    first, second = results[0], (problem or yardstick.problem)(way, 0)
    same = first.keys() == second.keys() and all(torch.equal(first[n], second[n]) for n in first)
    eager, errors = yardstick.eager_errors(way.eager()), yardstick.errors(results)
    dtypes = yardstick.dtypes(way.eager())
    for name, tensor in first.items():
        if tensor.dtype != dtypes[name]:  # a result rounded to fewer digits than eager's is wrong
            errors[name] = math.inf

    def passes(name: str) -> float:
        given = (floors or {}).get(name, _floor(dtypes[name], first[name].device))
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
    """The verdict on differences that have their own limits, as in the special checks."""

    def excess(name: str) -> float:
        difference, allowed = differences[name], limits[name]
        return difference / allowed if allowed else math.inf if difference else 0.0

    worst = max(differences, key=excess)
    return Verdict(
        passed=all(value <= limits[name] for name, value in differences.items()), tensor=worst,
        worst=differences[worst], limit=limits[worst], deterministic=True, ratios=differences,
    )  # fmt: skip


def bitwise(got: Tensors, expected: Tensors) -> Verdict:
    """The verdict whether all tensors equal the expected ones to the bit, with the differences."""
    differences = {
        name: 0.0 if name in got and torch.equal(got[name], t) else distance(got.get(name), t)
        for name, t in expected.items()
    }
    passed = all(name in got and torch.equal(got[name], t) for name, t in expected.items())
    return replace(compared(differences, dict.fromkeys(differences, 0.0)), passed=passed)


def distance(got: Tensor | None, expected: Tensor) -> float:
    """The norm of the difference over that of the expected tensor.

    It is infinite if the tensor is missing, of another shape, or not finite.
    """
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
    """Autocast for the forward pass, without the cache of casts, which a CUDA graph cannot keep."""
    kind = torch.device(device).type
    return torch.autocast(kind, torch.bfloat16, enabled=way.autocast, cache_enabled=False)


def _norms(draws: list[Tensors]) -> dict[str, float]:
    """By name the norm of the tensors of all draws, taken as one vector.

    All norms are brought from the device together, so that it is waited for only once.
    """
    names = list(draws[0])
    norms = torch.stack([torch.stack([d[name].norm() for d in draws]).norm() for name in names])
    return dict(zip(names, norms.tolist(), strict=True))


def _floor(dtype: torch.dtype, device: torch.device) -> float:
    halves = {torch.bfloat16: BF16_FLOOR, torch.float16: FP16_FLOOR}
    return halves.get(dtype, CPU_FLOOR if device.type == "cpu" else FLOOR)


def _finite(value: Any) -> Any:
    """Numbers rounded to four digits; None for those that are not finite, which JSON lacks."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, float):
        return float(f"{value:.4g}") if math.isfinite(value) else None
    return value
