"""Fused against reference: one problem, all outputs and gradients by name, errors against fp64."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from slipstream import Membership, deslice_tokens, slice_points
from slipstream.kernels.api import couple
from slipstream.kernels.membership import Axis
from slipstream.kernels.plan import Impl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
FLOOR = 2.0**-21 if DEVICE == "cpu" else 1e-6
"""Errors of a few ulp pass whatever eager's happened to be."""
ORDERS = 8
"""In how many orders of points and slots eager is measured: on small problems one is chance."""


def move_from_initial_values(model: nn.Module) -> None:
    """Draw new parameters: at initial values memberships are nearly uniform, and their gradients
    lie below any tolerance."""
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=draw, dtype=parameter.dtype)
            parameter.add_(0.3 * noise.to(parameter.device))
            if name.endswith("temperature"):
                parameter.clamp_(min=0.3)  # near zero gradients are left of long cancelling sums


@dataclass(frozen=True)
class Case:
    batch: int = 1
    points: int = 40
    heads: int = 2
    slices: int = 16
    width: int = 16
    values: int = 16
    weight: str = "shared"
    bias: str = "shared"
    shared_query: bool = False
    over: Axis = "slots"
    pair: bool = False
    """Slice and deslice as one, by `couple`; else one beside the other."""

    def tensors(self, order: int = 0) -> dict[str, Tensor]:
        """Inputs in fp64, by name; without a bias there is none. Order 0 is as drawn."""
        draw = torch.Generator().manual_seed(0)
        b, n, h, g, d, v = (
            self.batch, self.points, self.heads, self.slices, self.width, self.values
        )  # fmt: skip
        lead = {"shared": (), "per-head": (h,), "per-sample": (b, h)}

        def randn(*shape: int) -> Tensor:
            return torch.randn(shape, generator=draw, dtype=torch.float64)

        found = {
            "query": randn(b, n, 1 if self.shared_query else h, d),
            "slot_weight": randn(*lead[self.weight], g, d) / d**0.5,
            "slot_bias": randn(*lead.get(self.bias, ()), g),
            "temperature": 0.5 + torch.rand(h, generator=draw, dtype=torch.float64),
            "values": randn(b, n, h, v),
            "tokens": randn(b, h, g, v),
        }
        if self.bias == "none":
            del found["slot_bias"]
        points, slots = self.orders(order)
        axes = {"query": (1, points), "values": (1, points), "slot_weight": (-2, slots),
                "slot_bias": (-1, slots), "tokens": (-2, slots)}  # fmt: skip
        return {n: t.index_select(*axes[n]) if n in axes else t for n, t in found.items()}

    def orders(self, order: int) -> tuple[Tensor, Tensor]:
        if order == 0:
            return torch.arange(self.points), torch.arange(self.slices)
        draw = torch.Generator().manual_seed(order)
        return (
            torch.randperm(self.points, generator=draw),
            torch.randperm(self.slices, generator=draw),
        )


def outputs_and_gradients(
    case: Case, dtype: torch.dtype, impl: Impl, precision: str | None = None, order: int = 0
) -> dict[str, Tensor]:
    """Everything the two operations give, and the gradients of a fixed random functional of it.

    `order` numbers an order of points and slots; the functional is the same in all of them.
    """
    leaves = {name: t.to(DEVICE, dtype).requires_grad_() for name, t in case.tensors(order).items()}
    m = Membership(
        leaves["query"], leaves["slot_weight"], leaves.get("slot_bias"), leaves["temperature"],
        case.over,
    )  # fmt: skip
    found: dict[str, Tensor] = {}
    if case.pair:
        tokens = leaves["tokens"]

        def mix(t: Tensor) -> Tensor:
            return t.sin() + tokens

        how = {"impl": impl, "precision": precision}
        found["out"] = couple(m, leaves["values"], mix, epsilon=1e-2, **how)  # type: ignore[arg-type]
    else:
        sums = slice_points(m, leaves["values"], impl=impl, precision=precision)
        found |= {"numerator": sums.numerator, "mass": sums.mass}
        if case.over == "slots":
            found["out"] = deslice_tokens(m, leaves["tokens"], impl=impl, precision=precision)
        elif sums.log_normalizer is not None:
            found["log_normalizer"] = sums.log_normalizer
    draw = torch.Generator().manual_seed(1)
    points, slots = case.orders(order)
    terms = []
    for name, tensor in found.items():
        cotangent = torch.randn(tensor.shape, generator=draw, dtype=torch.float64)
        axis, along = (1, points) if name == "out" else (2, slots)
        terms.append((tensor * cotangent.index_select(axis, along).to(tensor)).sum())
    used = {n: t for n, t in leaves.items() if case.over == "slots" or n != "tokens"}
    gradients = torch.autograd.grad(torch.stack(terms).sum(), list(used.values()))
    named = {f"gradient of {n}": g for n, g in zip(used, gradients, strict=True)}
    return {name: t.detach() for name, t in {**found, **named}.items()}


def errors(got: dict[str, Tensor], exact: dict[str, Tensor]) -> dict[str, float]:
    """Relative to each tensor's norm, or to a thousandth of the largest where that is more."""
    largest = max(float(t.norm()) for t in exact.values())
    return {
        name: float((got[name].double() - t).norm()) / max(float(t.norm()), 1e-3 * largest)
        for name, t in exact.items()
    }


def check_parity(case: Case, factor: float = 1.25, impl: Impl = "fused") -> None:
    """In fp32 `impl` is at most `factor` times as far from fp64 as eager, tensor by tensor.

    The temperature's gradient may be twice as far: a number or two left over from a long cancelling
    sum, whose error varies fourfold with the order of the points alone (2e-7 to 8e-7 for eager).
    """
    fused = errors(
        outputs_and_gradients(case, torch.float32, impl),
        outputs_and_gradients(case, torch.float64, "reference"),
    )
    eager = [
        errors(
            outputs_and_gradients(case, torch.float32, "reference", order=order),
            outputs_and_gradients(case, torch.float64, "reference", order=order),
        )
        for order in range(ORDERS)
    ]
    for name, error in fused.items():
        allowed = max(factor, 2.0) if name == "gradient of temperature" else factor
        limit = max(allowed * max(measured[name] for measured in eager), FLOOR)
        assert error <= limit, f"{name}: {error:.1e} > {limit:.1e} in {case}"
